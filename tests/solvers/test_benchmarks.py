"""All eleven benchmarks, by five methods."""

from __future__ import annotations

import numpy as np
import pytest
from support.routes import plan_by

import tessella as ts

METHODS = [
    ts.ValueIteration(1e-9),
    ts.ModifiedPolicyIteration(1e-9),
    ts.PolicyIteration(1e-9),
    ts.InexactPolicyIteration(1e-9),
]


@pytest.mark.parametrize("label", list(ts.BENCHMARKS))
def test_five_methods_agree_within_their_bounds_and_on_every_decided_action(label):
    agree(ts.benchmark(label))


def test_so_do_they_through_compiled_stages():
    agree(ts.benchmark("INV-Mix"), "stages")


def agree(mdp: ts.MDP, route: str = "rows") -> None:
    by_program = ts.solve(mdp, plan=plan_by(mdp, route, ts.LinearProgramming(1e-9)))
    assert by_program.sweeps == 1  # the program's own answer: looked at, not improved
    assert by_program.error_bound <= 1e-9
    for method in METHODS:
        solution = ts.solve(mdp, plan=plan_by(mdp, route, method))
        assert solution.converged
        assert solution.error_bound <= 1e-9
        apart = np.abs(solution.value - by_program.value).max()
        assert apart <= solution.error_bound + by_program.error_bound
        both = solution.decided & by_program.decided
        assert both.mean() > 0.99
        assert np.array_equal(solution.policy.table[both], by_program.policy.table[both])


@pytest.mark.parametrize("label", ["INV-Mix", "QUE-Mix"])
def test_plain_numpy_value_iteration_agrees(label):
    mdp = ts.benchmark(label)
    sparse = mdp.to_sparse()
    value = np.zeros(mdp.n_states)
    for _ in range(700):  # 0.95^700 < 1e-15
        q = np.stack(
            [
                sparse.reward[:, a] + mdp.discount * (p @ value)
                for a, p in enumerate(sparse.transition)
            ],
            axis=1,
        )
        value = q.max(axis=1)
    solution = ts.solve(mdp)
    assert np.abs(solution.value.ravel() - value).max() <= solution.error_bound + 1e-10
    assert np.abs(solution.q.reshape(q.shape) - q).max() <= 1e-9
    ranked = np.sort(q, axis=1)
    assert np.allclose(solution.margin.ravel(), ranked[:, -1] - ranked[:, -2], atol=1e-9)
    assert np.array_equal(solution.policy.table.ravel(), q.argmax(axis=1))


def test_a_constant_added_to_the_reward_shifts_the_value_and_keeps_the_policy():
    plain = ts.benchmark("INV-Mix").to_sparse()
    shifted = ts.MDP.from_arrays(plain.transition, plain.reward + 3.0, plain.discount)
    original = ts.MDP.from_arrays(plain.transition, plain.reward, plain.discount)
    a, b = ts.solve(original), ts.solve(shifted)
    assert np.abs(b.value - a.value - 3.0 / 0.05).max() <= a.error_bound + b.error_bound + 1e-12
    assert np.array_equal(a.policy.table, b.policy.table)


def test_a_new_model_of_a_known_shape_compiles_nothing(caplog):
    import jax

    def solve(mdp: ts.MDP, tol: float | None = None) -> None:
        ts.solve(mdp, plan=plan_by(mdp, "stages", tol=tol))

    with jax.log_compiles():
        solve(ts.inventory(unit_cost=0.25))
        caplog.clear()
        solve(ts.inventory(unit_cost=0.3, demand_base=2.5, discount=0.9), 1e-5)
        assert "XLA compilation" not in caplog.text
        solve(ts.MDP.staged({"x": [0, 1]}, (0, 1), 0.9, [ts.Pay(lambda x: 1.0 * x)]), 1e-5)
        assert "XLA compilation" in caplog.text  # or the line above would show nothing
