"""pymdptoolbox: a sparse matrix for each action; value iteration, its quickest here."""

import warnings

import numpy as np
from mdptoolbox import mdp as toolbox

CAP = 1_000_000  # rounds; None for its own limit
ONCE = True  # a second run would begin where the first ended


def build(model):
    warnings.simplefilter("ignore")
    p, cap = model.pairs(), CAP or 1000
    if model.average:
        return toolbox.RelativeValueIteration(p.by_action(), p.reward_table(), 1e-6, cap)
    # Its epsilon is that of a policy, and so is what it promises.
    return toolbox.ValueIteration(
        p.by_action(), p.reward_table(), model.discount, epsilon=1e-6, max_iter=cap
    )


def solve(run, tol):
    run.epsilon = tol
    run.run()
    average = isinstance(run, toolbox.RelativeValueIteration)
    return np.atleast_1d(run.average_reward if average else run.V), np.asarray(run.policy)
