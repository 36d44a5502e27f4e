"""Solutions and policies that were computed for the page, kept up to a limit.

Every request is complete, so what was dropped is computed again: an answer never depends on the
requests before it.
"""

from __future__ import annotations

import json
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from matplotlib.colors import to_hex
from matplotlib.ticker import MaxNLocator
from numpy.typing import NDArray

import tessella as ts
from tessella.errors import ArgumentError
from tessella.explore.catalogue import ModelCatalogue
from tessella.explore.request import RequestFields
from tessella.mdp.start import start_distribution
from tessella.plot.frame import action_colours
from tessella.rules.compress import compress  # with what it imports, before it is requested
from tessella.rules.loss_target import ProvenLoss, prove_loss_upper_bounds
from tessella.solvers.constraints.tradeoff import DIRECTIONS

SOLUTIONS_MAX_NUMBERS = 30_000_000  # numbers in all solutions that are kept
CACHED_MAX_POLICIES = 32  # policies
LEARNING_MAX_SAMPLES = 20_000  # labels, or simulator calls
POLICY_KINDS = ("optimal", "rule", "learned", "level")
TRADEOFF_MAX_LEVELS = 14  # round levels of a measure, without its ends


@dataclass(frozen=True, eq=False)
class SolvedModel:
    """A model with its solution, and what is computed from it at first use."""

    key: str
    solution: ts.Solution

    @cached_property
    def colours(self) -> list[str]:
        """A colour for each action."""
        palette = action_colours(ts.tessellate(self.solution))
        return [to_hex(palette(k)) for k in range(palette.N)]

    @cached_property
    def second_best(self) -> NDArray[np.int32]:
        """(grid) the second-best action; -1 where only one is feasible."""
        q = self.solution.q
        if q.shape[-1] == 1:
            return np.full(q.shape[:-1], -1, dtype=np.int32)
        others = q.copy()
        np.put_along_axis(others, self.solution.policy.table[..., None], -np.inf, axis=-1)
        best = others.argmax(axis=-1).astype(np.int32)
        return np.where(np.isfinite(others.max(axis=-1)), best, -1).astype(np.int32)

    @cached_property
    def state_occupancy(self) -> NDArray[np.float64]:
        """(grid) share of time in each state under the optimal policy."""
        return ts.occupancy(self.solution.mdp, self.solution.policy).share

    def compute_local_loss(self, policy: ts.Policy) -> NDArray[np.float64]:
        """(grid) V* - Q*(s, policy(s)), 0 where the action ties with the best one."""
        q = self.solution.q
        taken = np.take_along_axis(q, policy.table[..., None], axis=-1)[..., 0]
        return np.where(self.solution.ties(policy.table), 0.0, q.max(axis=-1) - taken)


def _count_numbers(mdp: ts.MDP) -> int:
    """About how many numbers a solution of a model holds."""
    return mdp.n_states * (mdp.n_actions + 6)


class BoundedCache:
    """Values by key; beyond a total size, those that were not used for longest are dropped."""

    def __init__(self, max_size: int, measure_size: Callable[[Any], int] = lambda value: 1) -> None:
        self.max_size = max_size
        self.measure_size = measure_size
        self._values: OrderedDict[str, Any] = OrderedDict()

    def get(self, key: str, compute: Callable[[], Any]) -> Any:
        """The value of ``key``, computed if it is not there; it is never dropped by this call."""
        if key not in self._values:
            self._values[key] = compute()
        self._values.move_to_end(key)
        total = sum(map(self.measure_size, self._values.values()))
        while total > self.max_size and len(self._values) > 1:
            total -= self.measure_size(self._values.popitem(last=False)[1])
        return self._values[key]


class Session:
    """Solutions and policies by the fields of a request."""

    def __init__(self, catalogue: ModelCatalogue) -> None:
        self.catalogue = catalogue
        self._models = BoundedCache(
            SOLUTIONS_MAX_NUMBERS, lambda model: _count_numbers(model.solution.mdp)
        )
        self._policies = BoundedCache(CACHED_MAX_POLICIES)
        self._tradeoffs = BoundedCache(
            SOLUTIONS_MAX_NUMBERS, lambda curve: len(curve.points) * _count_numbers(curve.mdp)
        )

    def get_model(self, request: RequestFields) -> SolvedModel:
        """The solution of the model that a request names."""
        name = request.text("model")
        settings = request.mapping("settings")
        key = json.dumps([name, settings], sort_keys=True)

        def open_and_solve() -> SolvedModel:
            opened = self.catalogue.open(name, settings)
            return SolvedModel(key, opened if isinstance(opened, ts.Solution) else ts.solve(opened))

        return self._models.get(key, open_and_solve)

    def get_policy(self, model: SolvedModel, request: RequestFields | None) -> ts.Policy:
        """The policy that a request names; the optimal one where it names none."""
        kind = "optimal" if request is None else request.choice("kind", POLICY_KINDS)
        if request is None or kind == "optimal":
            return model.solution.policy
        compute = {
            "rule": lambda: _compress(model.solution, request, 0.01, worst=request.flag("worst")),
            "learned": lambda: _learn(model.solution, request),
            "level": lambda: _follow_level(self.get_tradeoff(model, request), request),
        }
        key = json.dumps([model.key, dict(request.fields)], sort_keys=True)
        return self._policies.get(key, compute[kind])

    def get_tradeoff(self, model: SolvedModel, request: RequestFields) -> ts.Tradeoff:
        """What levels of the measure that a request names cost."""
        mdp = model.solution.mdp
        if not mdp.measures:
            raise ArgumentError("this model counts nothing, so there is no level to choose")
        measure = request.choice("measure", tuple(mdp.measures))
        better = request.choice("better", tuple(DIRECTIONS))
        key = json.dumps([model.key, measure, better])
        return self._tradeoffs.get(key, lambda: _compute_tradeoff(mdp, measure, better))

    def get_rule(self, model: SolvedModel, request: RequestFields | None) -> ts.Rule:
        policy = self.get_policy(model, request)
        if not isinstance(policy, ts.Rule):
            raise ArgumentError("this needs a policy of the kind 'rule'")
        return policy


def _compress(
    solution: Any, request: RequestFields, default_loss: float, **options: Any
) -> ts.Rule:
    """The smallest rule within the loss and the time that a request states."""
    loss = request.number("loss", default_loss, 0.0, 1.0)
    time_limit = request.number("seconds", 10.0, 0.1, 60.0)
    return compress(solution, loss, time_limit=time_limit, **options)


def _compute_tradeoff(mdp: ts.MDP, measure: str, better: Any) -> ts.Tradeoff:
    """At the level of the optimum, at the best level, and at round levels between them."""
    objective = "cost" if mdp.sense.is_cost else "reward"
    ends = ts.tradeoff(mdp, objective, measure, points=2, better=better).points
    first, last = (point.level for point in ends)
    locator = MaxNLocator(TRADEOFF_MAX_LEVELS, steps=[1, 2, 5, 10])
    ticks = np.asarray(locator.tick_values(first, last))
    is_apart = np.minimum(abs(ticks - first), abs(ticks - last)) > abs(ticks[1] - ticks[0]) / 10
    is_between = (ticks - first) * (ticks - last) < 0
    levels = ticks[is_apart & is_between].round(12).tolist()
    ordered = [first, *sorted(levels, reverse=first > last), last]
    return ts.tradeoff(mdp, objective, measure, points=ordered, better=better)


def _follow_level(curve: ts.Tradeoff, request: RequestFields) -> ts.Policy:
    """The policy at a level of a trade-off, or the smallest rule for that level."""
    point = curve.points[request.integer("at", 0, 0, len(curve.points) - 1)]
    if not request.flag("rule"):
        return point.policy.with_name(point.solution.terms)
    return _compress(point.solution, request, 0.02)


def _learn(solution: ts.Solution, request: RequestFields) -> ts.Policy:
    """A policy from labels or transitions, as a request states: learner, samples, noise, seed."""
    from tessella.baselines import BASELINES  # scikit-learn takes a second to load
    from tessella.learn import LEARNERS, make_learner

    name = request.choice("learner", (*LEARNERS, *BASELINES), "margin")
    n_samples = request.integer("samples", 400, 1, LEARNING_MAX_SAMPLES)
    seed = request.integer("seed", 0, 0, 2**31)
    if name in BASELINES:
        return ts.train(BASELINES[name](), solution.mdp, n_samples, rng=seed)
    noise = request.number("noise", 0.0, 0.0, 100.0) if request.has("noise") else None
    sample = ts.draw(solution, n_samples, noise=noise, rng=seed)
    return ts.fit(make_learner(name, seed), sample)


def prove_loss(solution: ts.Solution, policy: ts.Policy) -> ProvenLoss:
    """An upper bound on the loss of a policy, from the model's own start."""
    start = start_distribution(solution.mdp, None, solution.policy)
    return prove_loss_upper_bounds(solution, policy, start)
