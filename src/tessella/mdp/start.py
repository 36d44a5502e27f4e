"""Where a process begins: whatever is called a start, as a distribution over states."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tessella.errors import ModelError, shown
from tessella.grid import unmasked
from tessella.mdp.checks import SUM_TOLERANCE, as_numbers, shape_of

if TYPE_CHECKING:
    from tessella.mdp.model import MDP


def start_distribution(mdp: MDP, start: ArrayLike | None) -> NDArray[np.float64]:
    """(S,) probabilities of the first state, from whatever is called a start:

    None            the model's own, or all states as likely
    an integer      that state
    integers        a list of states, each entry as likely
    floats          the probabilities of all states, flat or in the grid's shape
    """
    if start is None:
        return np.full(mdp.n_states, 1.0 / mdp.n_states) if mdp.start is None else mdp.start
    states = listed_states(mdp, start)
    if states is not None:
        return np.bincount(states, minlength=mdp.n_states) / len(states)
    weights = as_numbers(start, "start probabilities").ravel()
    if weights.size != mdp.n_states:
        raise ModelError(
            f"a start distribution has {mdp.n_states} entries", "", f"got {weights.size}"
        )
    bad = np.flatnonzero(~(weights >= 0) | np.isinf(weights))
    if bad.size:
        place, value = mdp.grid.describe(int(bad[0])), f"has {weights[bad[0]]}"
        rule = "start probabilities must be finite and not negative"
        raise ModelError(rule, place, value, bad.size, weights.size, "states")
    total = weights.sum()
    if abs(total - 1) > SUM_TOLERANCE:
        raise ModelError("start probabilities must sum to 1", "", f"they sum to {shown(total)}")
    # Rounding is left alone, so that a start comes back as it was given.
    return weights if abs(total - 1) <= 1e-14 else weights / total


def listed_states(mdp: MDP, start: ArrayLike) -> NDArray[np.int64] | None:
    """The states that a start of integers names; None if it is a distribution."""
    shape_of(start, "start")
    array = np.asarray(unmasked(start, "start"))
    rule = "a start is a state index, a list of them, or a distribution written as floats"
    if array.dtype.kind == "b" or (array.dtype.kind in "iu" and (array.ndim > 1 or not array.size)):
        raise ModelError(rule, "", f"got {array.dtype} of shape {array.shape}")
    if array.dtype.kind not in "iu":
        return None
    states = np.atleast_1d(array)
    if array.shape == (mdp.n_states,) and states.max() == 1 and states.min() >= 0:
        raise ModelError(rule, "", f"0 and 1 for each of {len(states)} states could mean either")
    bad = states[(states < 0) | (states >= mdp.n_states)]
    if bad.size:
        raise ModelError(f"states must lie in 0..{mdp.n_states - 1}", "", f"got {bad[0]}")
    return states.astype(np.int64)
