"""check_policy(mdp, policy): whether a rule of one's own decides as a policy must.

It answers every point with a feasible action, the same one however it is asked: alone or among
others, in any order, now or later, here or in another process.
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import cloudpickle
import numpy as np

from tessella.errors import TessellaError
from tessella.mdp.model import MDP
from tessella.mdp.policy import Policy

ASKED = 64  # states that are asked about one by one


def check_policy(mdp: MDP, policy: Any) -> None:
    """Raise an AssertionError that names the first promise ``policy`` does not keep in ``mdp``."""
    assert isinstance(mdp, MDP), f"check_policy needs the model that it is for, not {mdp!r}"
    try:
        taken = mdp.policy(policy)
        table = taken.table
    except TessellaError as error:
        raise AssertionError(
            f"it is not a policy of {mdp.name or 'this model'}: {error}"
        ) from error
    _check_size(taken)
    try:
        _check_answers(mdp, taken)
    except TessellaError as error:
        raise AssertionError(f"asked about some states alone, it fails: {error}") from error
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "policy.json"
        taken.save(path)
        same = np.array_equal(Policy.load(path).table, table)
        assert same, "saved and loaded, it decides otherwise"


def _check_size(policy: Policy) -> None:
    size = policy.size
    whole = isinstance(size, int | np.integer) and not isinstance(size, bool) and size >= 0
    assert whole, (
        "size must say how much it stores, as it counts that itself, in a whole number; "
        f"got {size!r}"
    )


def _check_answers(mdp: MDP, policy: Policy) -> None:
    rng = np.random.default_rng(0)
    some = rng.permutation(mdp.n_states)[:ASKED]
    points, expected = mdp.grid.points_of(some), policy.table.ravel()[some]
    _same(policy.act(points), expected, mdp, some, "asked about some states in another order")
    alone = np.concatenate([policy.act(point) for point in points])
    _same(alone, expected, mdp, some, "asked about one state at a time")
    there = cloudpickle.loads(cloudpickle.dumps(policy))
    _same(there.act(points), expected, mdp, some, "sent to another process")


def _same(found, expected, mdp: MDP, states, how: str) -> None:
    other = np.flatnonzero(found != expected)
    if other.size:
        s = int(states[other[0]])
        raise AssertionError(
            f"{how}, it decides otherwise: {mdp.describe(s, int(found[other[0]]))}, "
            f"and {mdp.describe(s, int(expected[other[0]]))} before"
        )
