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

MAX_SINGLE_QUERIES = 64  # states that are asked about one by one


def check_policy(mdp: MDP, policy: Any) -> None:
    """Raise an AssertionError that names the first requirement ``policy`` of ``mdp`` breaks."""
    assert isinstance(mdp, MDP), f"check_policy needs the model that it is for, not {mdp!r}"
    try:
        checked_policy = mdp.policy(policy)
        table = checked_policy.table
    except TessellaError as error:
        raise AssertionError(
            f"it is not a policy of {mdp.name or 'this model'}: {error}"
        ) from error
    _check_size(checked_policy)
    try:
        _check_answers(mdp, checked_policy)
    except TessellaError as error:
        raise AssertionError(f"asked about some states alone, it fails: {error}") from error
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "policy.json"
        checked_policy.save(path)
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
    states = rng.permutation(mdp.n_states)[:MAX_SINGLE_QUERIES]
    points = mdp.grid.points_of(states)
    expected = policy.table.ravel()[states]
    _assert_same(
        policy.act(points), expected, mdp, states, "asked about some states in another order"
    )
    alone = np.concatenate([policy.act(point) for point in points])
    _assert_same(alone, expected, mdp, states, "asked about one state at a time")
    restored = cloudpickle.loads(cloudpickle.dumps(policy))
    _assert_same(restored.act(points), expected, mdp, states, "sent to another process")


def _assert_same(actions, expected, mdp: MDP, states, circumstance: str) -> None:
    differing = np.flatnonzero(actions != expected)
    if differing.size:
        s = int(states[differing[0]])
        raise AssertionError(
            f"{circumstance}, it decides otherwise: {mdp.describe(s, int(actions[differing[0]]))}, "
            f"and {mdp.describe(s, int(expected[differing[0]]))} before"
        )
