"""Nine inputs, eight of them faulty or difficult, and the correct reaction of a solver to each.

All are variants of a model with two states: state 0 pays 1 and stays, or moves; state 1 pays 0 and
stays.
"""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp
from models import BUILDERS, Model, Pairs

DISCOUNT = 0.9
EXPECTED_REACTIONS = {
    "an easy case": "answers",
    "a row that sums to 0.9": "rejects",
    "NaN in a row": "rejects",
    "NaN in a reward": "rejects",
    "a negative probability": "rejects",
    "a reward too many": "rejects",
    "a row off by 3e-15": "answers",
    "discount 1.5": "rejects",
    "discount 0.9999, all settings as they come": "answers",
}


def build_faulty_pairs(name: str) -> Pairs:
    """State-action pairs of one input."""
    rows = np.array([[1.0, 0.0], [0.5, 0.5], [0.0, 1.0], [0.0, 1.0]])
    reward = np.array([1.0, 1.5, 0.0, 0.0])
    if name == "a row that sums to 0.9":
        rows[1] = [0.4, 0.5]
    elif name == "NaN in a row":
        rows[1, 0] = np.nan
    elif name == "NaN in a reward":
        reward[1] = np.nan
    elif name == "a negative probability":
        rows[1] = [-0.5, 1.5]
    elif name == "a reward too many":
        reward = np.append(reward, 2.0)
    elif name == "a row off by 3e-15":
        rows[1, 0] += 3e-15
    state, action = np.array([0, 0, 1, 1]), np.array([0, 1, 0, 1])
    return Pairs(state, action, reward, sp.csr_matrix(rows))


def list_models() -> list[Model]:
    """All nine inputs."""
    return [Model(name, "faulty", (name,), find_discount(name)) for name in EXPECTED_REACTIONS]


def find_discount(name: str) -> float:
    if name.startswith("discount 1.5"):
        return 1.5
    return 0.9999 if name.startswith("discount 0.9999") else DISCOUNT


def compute_optimum(model: Model) -> np.ndarray:
    """(2,) the values of an input that a solver should answer: it stays in state 0 forever."""
    return np.array([1 / (1 - model.discount), 0.0])


BUILDERS["faulty"] = build_faulty_pairs
