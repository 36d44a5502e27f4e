"""Nine inputs, eight of them faulty or awkward: what a solver says to each.

A model of two states with one answer: state 0 pays 1 and stays or moves, state 1 pays 0 and stays.
"""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp
from models import MAKERS, Model, Pairs

GAMMA = 0.9
FAULTS = {
    "an easy case": "answers",
    "a row that sums to 0.9": "refuses",
    "NaN in a row": "refuses",
    "NaN in a reward": "refuses",
    "a negative probability": "refuses",
    "a reward too many": "refuses",
    "a row off by 3e-15": "answers",
    "discount 1.5": "refuses",
    "discount 0.9999, all settings as they come": "answers",
}


def faulty(what: str) -> Pairs:
    """The pairs of one of them."""
    rows = np.array([[1.0, 0.0], [0.5, 0.5], [0.0, 1.0], [0.0, 1.0]])
    reward = np.array([1.0, 1.5, 0.0, 0.0])
    if what == "a row that sums to 0.9":
        rows[1] = [0.4, 0.5]
    elif what == "NaN in a row":
        rows[1, 0] = np.nan
    elif what == "NaN in a reward":
        reward[1] = np.nan
    elif what == "a negative probability":
        rows[1] = [-0.5, 1.5]
    elif what == "a reward too many":
        reward = np.append(reward, 2.0)
    elif what == "a row off by 3e-15":
        rows[1, 0] += 3e-15
    state, action = np.array([0, 0, 1, 1]), np.array([0, 1, 0, 1])
    return Pairs(state, action, reward, sp.csr_matrix(rows))


def models() -> list[Model]:
    """All nine."""
    return [Model(what, "faulty", (what,), _discount(what)) for what in FAULTS]


def _discount(what: str) -> float:
    if what.startswith("discount 1.5"):
        return 1.5
    return 0.9999 if what.startswith("discount 0.9999") else GAMMA


def optimum(model: Model) -> np.ndarray:
    """(2,) the values of an input that must be answered: staying in state 0 for ever, or 0."""
    return np.array([1 / (1 - model.discount), 0.0])


MAKERS["faulty"] = faulty
