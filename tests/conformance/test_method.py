"""A method written outside of the package is checked by what it does."""

from __future__ import annotations

from dataclasses import dataclass

import jax.numpy as jnp
import pytest

import tessella as ts
from tessella.conformance import check_method


@dataclass(frozen=True)
class Relaxed(ts.Method):
    """v <- v + by (T v - v): a little further than value iteration."""

    by: float = 1.1

    def step(self, operators, state):
        return state.value + self.by * (state.backup - state.value)


@dataclass(frozen=True)
class Stuck(ts.Method):
    max_sweeps: int = 50

    def step(self, operators, state):
        return state.value


@dataclass(frozen=True)
class Broken(ts.Method):
    def step(self, operators, state):
        return state.nowhere


@dataclass(frozen=True)
class Adrift(ts.Method):
    def step(self, operators, state):
        return jnp.full_like(state.value, jnp.nan)


@dataclass(frozen=True)
class Comparing(ts.Method):
    tol: float | None = None  # takes part in comparing: another program for each tolerance

    def step(self, operators, state):
        return state.backup


METHODS = [
    ts.ValueIteration(),
    ts.ModifiedPolicyIteration(),
    ts.PolicyIteration(),
    ts.InexactPolicyIteration(),
    ts.LinearProgramming(),
    ts.BackwardInduction(),
    ts.MixedPrecision(),
    ts.InPlace(tol=1e-8),
]


@pytest.mark.parametrize("method", METHODS, ids=lambda method: method.name)
def test_every_method_of_the_package_keeps_what_methods_of_others_must(method):
    check_method(method)


def test_no_method_of_the_package_is_left_out():
    public = [getattr(ts, name) for name in ts.__all__]
    methods = {part for part in public if isinstance(part, type) and issubclass(part, ts.Method)}
    methods -= {ts.Method}
    assert methods == {type(method) for method in METHODS}


def test_a_method_that_supports_no_model_is_named():
    @dataclass(frozen=True)
    class Choosy(Relaxed):
        def check_supports(self, mdp):
            raise ts.ArgumentError("no model will do")

    with pytest.raises(AssertionError, match="Choosy supports none of the models"):
        check_method(Choosy())


def test_a_method_of_ones_own_solves_and_passes():
    check_method(Relaxed())
    mdp = ts.benchmark("QUE-Lin")
    mine, ours = ts.solve(mdp, Relaxed(1e-8)), ts.solve(mdp)
    assert mine.method == "Relaxed"
    assert abs(mine.value - ours.value).max() <= mine.error_bound + ours.error_bound


@pytest.mark.parametrize(
    ("method", "said"),
    [
        (Stuck(), "does not reach its tolerance: the limit of 50 sweeps was reached"),
        (Broken(), "breaks: AttributeError"),
        (Adrift(), "does not reach its tolerance: the run broke down"),
        (Comparing(), "two methods that differ in tol alone must be equal"),
        ("value iteration", "a method is a tessella.Method, not 'value iteration'"),
    ],
)
def test_a_method_that_keeps_no_promise_is_told_which(method, said):
    with pytest.raises(AssertionError, match=said):
        check_method(method)


def test_a_bound_that_is_too_small_is_seen(monkeypatch):
    from dataclasses import replace

    import tessella.conformance as checking

    def boastful(*args, **kwargs):
        found = ts.solve(*args, **kwargs)
        return replace(found, value=found.value + 1e-3, error_bound=1e-6)

    monkeypatch.setattr(checking, "solve", boastful)
    with pytest.raises(AssertionError, match=r"is off by 0\.001 under a bound of 1e-06"):
        check_method(ts.ValueIteration())


@pytest.mark.parametrize("answer", [0.0, None, (1, 2), jnp.zeros(2)], ids=str)
def test_a_point_that_is_none_is_told_what_a_point_is(answer):
    @dataclass(frozen=True)
    class Wrong(ts.Method):
        def step(self, operators, state):
            return answer

    with pytest.raises(AssertionError, match="step must return one array of the grid's shape"):
        check_method(Wrong())
