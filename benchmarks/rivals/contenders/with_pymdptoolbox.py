"""pymdptoolbox: a sparse matrix for each action; value iteration, its fastest method here."""

import warnings

import numpy as np
from mdptoolbox import mdp as toolbox

MAX_ITERATIONS = 1_000_000  # None for the package's own limit
SOLVES_ONCE = True  # a second run would start from the result of the first


def build(model):
    warnings.simplefilter("ignore")
    p, max_iterations = model.build_pairs(), MAX_ITERATIONS or 1000
    if model.is_average:
        return toolbox.RelativeValueIteration(
            p.split_by_action(), p.make_reward_table(), 1e-6, max_iterations
        )
    # Its epsilon bounds the loss of the policy, not the error of the value.
    return toolbox.ValueIteration(
        p.split_by_action(),
        p.make_reward_table(),
        model.discount,
        epsilon=1e-6,
        max_iter=max_iterations,
    )


def solve(solver, tol):
    solver.epsilon = tol
    solver.run()
    is_average = isinstance(solver, toolbox.RelativeValueIteration)
    return np.atleast_1d(solver.average_reward if is_average else solver.V), np.asarray(
        solver.policy
    )
