"""pymdptoolbox: a sparse matrix for each action; value iteration, its quickest here."""

import warnings

import numpy as np
from mdptoolbox import mdp as toolbox

CAP = 1_000_000  # rounds; None for its own limit
ONCE = True  # a second run would begin where the first ended


def build(model):
    warnings.simplefilter("ignore")
    p = model.pairs()
    # Its epsilon is that of a policy, and so is what it promises.
    return toolbox.ValueIteration(
        p.by_action(), p.reward_table(), model.discount, epsilon=1e-6, max_iter=CAP or 1000
    )


def solve(run, tol):
    run.epsilon = tol
    run.run()
    return np.asarray(run.V), np.asarray(run.policy)
