"""Linear programming: the optimum by a route that is independent of sweeps.

    minimise  sum_s V(s)   subject to   V(s) - discount sum_s' P(s'|s,a) V(s') >= r(s, a).

HiGHS (dual simplex) finds the binding constraints, that is, the optimal action of each state; one
sparse LU solve of that policy then gives its value to full accuracy. The result is enclosed like
any other.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from tessella.criteria.criterion import require_criterion
from tessella.errors import ArgumentError, NotConverged, require_whole
from tessella.mdp.model import MDP
from tessella.solvers.method import Method

# Without a tolerance: the error bound to be reached, relative to the largest value.
LP_RELATIVE_TOLERANCE = 1e-9


@dataclass(frozen=True)
class LinearProgramming(Method):
    """The optimum by HiGHS; for models small enough to be written as sparse matrices.

    Its result is enclosed by one backup and not improved further.

    Args:
        tol: as in ``ValueIteration``.
        max_states: larger models raise an error.

    Example:
        >>> ts.solve(ts.benchmark("QUE-Lin"), ts.LinearProgramming(1e-6)).error_bound <= 1e-6
        True
    """

    requires_jax = False
    runs_on_one_device = True

    max_sweeps: int = field(default=1, init=False, compare=False)
    max_states: int = 50_000

    def __post_init__(self) -> None:
        super().__post_init__()
        require_whole("max_states", self.max_states, 1)

    def step(self, operators, state):
        return state.backup

    def tolerance(self, mdp: MDP) -> float | None:
        if self.tol is not None:
            return self.tol
        largest_value = mdp.criterion.value_of_constant_reward(mdp.dynamics.reward_scale)
        return LP_RELATIVE_TOLERANCE * largest_value or None

    @property
    def limit(self) -> str:
        return "the linear program's answer was only looked at"

    def check_supports(self, mdp: MDP) -> None:
        require_criterion("LinearProgramming", mdp.criterion, "is_discounted")
        if mdp.n_states > self.max_states:
            raise ArgumentError(
                "linear programming writes the model as matrices",
                value=f"{mdp.n_states:,} states are more than max_states={self.max_states:,}",
            )

    def init(self, mdp: MDP) -> NDArray[np.float64]:
        """(S,) the value of the policy that the linear program selects."""
        from scipy.optimize import linprog
        from scipy.sparse import csr_array, eye_array, vstack
        from scipy.sparse.linalg import splu

        sparse = mdp.to_sparse()
        identity = eye_array(mdp.n_states, format="csr")
        state, action = np.nonzero(sparse.feasible)
        systems = [csr_array(identity - mdp.discount * p) for p in sparse.transition]
        constraints = csr_array(vstack(systems, format="csr"))[action * mdp.n_states + state]
        # Rewards of any size look alike to the solver's absolute tolerances.
        scale = np.abs(sparse.reward[state, action]).max() or 1.0
        result = linprog(
            np.full(mdp.n_states, 1.0 / mdp.n_states),
            A_ub=-constraints,
            b_ub=-sparse.reward[state, action] / scale,
            bounds=(None, None),
            method="highs-ds",  # interior points take some feasible programs for infeasible
            options={"primal_feasibility_tolerance": 1e-10, "dual_feasibility_tolerance": 1e-10},
        )
        if result.status != 0:
            raise NotConverged(f"the linear program was not solved: {result.message}")
        slack = np.full(sparse.feasible.shape, np.inf)
        slack[state, action] = result.slack
        policy = slack.argmin(axis=1)
        system = identity - mdp.discount * mdp.dynamics.policy_matrix(policy)
        return splu(system.tocsc()).solve(sparse.reward[np.arange(mdp.n_states), policy])
