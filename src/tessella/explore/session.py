"""Solutions and policies that were computed for the page, kept up to a limit.

Every request states all that it is about, so what was dropped is computed again: an answer never
depends on the requests before it.
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
from numpy.typing import NDArray

from tessella.certificates.loss import loss
from tessella.errors import ArgumentError
from tessella.explore.catalogue import ModelCatalogue
from tessella.explore.request import RequestFields
from tessella.mdp.policy import Policy
from tessella.mdp.start import start_distribution
from tessella.plot.frame import action_colours
from tessella.rules.compress import compress
from tessella.rules.loss_target import ProvenLoss, prove_loss_bounds
from tessella.rules.rule import Rule
from tessella.solvers.policy_evaluation import occupancy
from tessella.solvers.solution import Solution
from tessella.solvers.solve import solve
from tessella.tessellation import tessellate

SOLUTIONS_MAX_NUMBERS = 30_000_000  # numbers in all solutions that are kept
CACHED_MAX_POLICIES = 32  # policies
LEARNING_MAX_SAMPLES = 20_000  # labels, or simulator calls
POLICY_KINDS = ("optimal", "rule", "learned")


@dataclass(frozen=True, eq=False)
class SolvedModel:
    """A model with its solution, and what is computed from it at first use."""

    key: str
    solution: Solution

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
        return occupancy(self.solution.mdp, self.solution.policy).share

    def compute_loss(self, policy: Policy) -> NDArray[np.float64]:
        """(grid) V* - V_policy, by evaluation."""
        return loss(self.solution, policy).by_state

    def compute_local_loss(self, policy: Policy) -> NDArray[np.float64]:
        """(grid) V* - Q*(s, policy(s)), 0 where the action ties with the best one."""
        q = self.solution.q
        taken = np.take_along_axis(q, policy.table[..., None], axis=-1)[..., 0]
        return np.where(self.solution.ties(policy.table), 0.0, q.max(axis=-1) - taken)

    def find_worse_states(self, policy: Policy) -> NDArray[np.bool_]:
        """(grid) whether a policy's action is worse than the best one, and no tie."""
        return ~self.solution.ties(policy.table)

    @property
    def n_numbers(self) -> int:
        mdp = self.solution.mdp
        return mdp.n_states * (mdp.n_actions + 6)


@dataclass(frozen=True, eq=False)
class PolicyWithProof:
    """A policy from a solution, and the bound on its loss."""

    policy: Policy
    proof: ProvenLoss | None


class Session:
    """Solutions and policies by the fields of a request."""

    def __init__(self, catalogue: ModelCatalogue) -> None:
        self.catalogue = catalogue
        self._models: OrderedDict[str, SolvedModel] = OrderedDict()
        self._policies: OrderedDict[str, PolicyWithProof] = OrderedDict()
        self._colours: OrderedDict[str, list[str]] = OrderedDict()

    def get_model(self, request: RequestFields) -> SolvedModel:
        """The solution of the model that a request names."""
        name = request.text("model")
        settings = request.mapping("settings")
        key = json.dumps([name, settings], sort_keys=True)
        if key not in self._models:
            opened = self.catalogue.open(name, settings)
            solution = opened if isinstance(opened, Solution) else solve(opened)
            self._models[key] = SolvedModel(key, solution)
            self._evict(self._models, lambda kept: kept.n_numbers, SOLUTIONS_MAX_NUMBERS)
        self._models.move_to_end(key)
        return self._models[key]

    def get_policy(self, model: SolvedModel, request: RequestFields | None) -> PolicyWithProof:
        """The policy that a request names; the optimal one where it names none."""
        kind = "optimal" if request is None else request.choice("kind", POLICY_KINDS)
        if request is None or kind == "optimal":
            return PolicyWithProof(model.solution.policy, None)
        key = json.dumps([model.key, dict(request.fields)], sort_keys=True)
        if key not in self._policies:
            compute = _compress if kind == "rule" else _learn
            self._policies[key] = compute(model.solution, request)
            self._evict(self._policies, lambda _: 1, CACHED_MAX_POLICIES)
        self._policies.move_to_end(key)
        return self._policies[key]

    def get_colours(self, model: SolvedModel) -> list[str]:
        """A colour for each action; models of the same actions share theirs."""
        actions = str(model.solution.mdp.actions)
        if actions not in self._colours:
            palette = action_colours(tessellate(model.solution))
            self._colours[actions] = [to_hex(palette(k)) for k in range(palette.N)]
            self._evict(self._colours, lambda _: 1, CACHED_MAX_POLICIES)
        return self._colours[actions]

    def get_rule(self, model: SolvedModel, request: RequestFields | None) -> Rule:
        policy = self.get_policy(model, request).policy
        if not isinstance(policy, Rule):
            raise ArgumentError("this needs a policy of the kind 'rule'")
        return policy

    @staticmethod
    def _evict(cache: OrderedDict[str, Any], size: Callable[[Any], int], limit: int) -> None:
        total = sum(map(size, cache.values()))
        while total > limit and len(cache) > 1:
            total -= size(cache.popitem(last=False)[1])


def _compress(solution: Solution, request: RequestFields) -> PolicyWithProof:
    rule = compress(
        solution,
        request.number("loss", 0.01, 0.0, 1.0),
        worst=request.flag("worst"),
        time_limit=request.number("seconds", 10.0, 0.1, 60.0),
    )
    return PolicyWithProof(rule, None)


def _learn(solution: Solution, request: RequestFields) -> PolicyWithProof:
    """A policy from labels or transitions, as a request states: learner, samples, noise, seed."""
    from tessella.baselines import BASELINES, train  # scikit-learn takes a second to load
    from tessella.learn import LEARNERS, draw, fit, make_learner

    name = request.choice("learner", (*LEARNERS, *BASELINES), "margin")
    n_samples = request.integer("samples", 400, 1, LEARNING_MAX_SAMPLES)
    seed = request.integer("seed", 0, 0, 2**31)
    if name in BASELINES:
        policy = train(BASELINES[name](), solution.mdp, n_samples, rng=seed)
    else:
        noise = request.number("noise", 0.0, 0.0, 100.0) if request.has("noise") else None
        sample = draw(solution, n_samples, noise=noise, rng=seed)
        policy = fit(make_learner(name, seed), sample)
    return PolicyWithProof(policy, prove_loss(solution, policy))


def prove_loss(solution: Solution, policy: Policy) -> ProvenLoss:
    """An upper bound on the loss of a policy, from the model's own start."""
    return prove_loss_bounds(
        solution, policy, start_distribution(solution.mdp, None, solution.policy)
    )
