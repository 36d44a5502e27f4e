"""Blocks of a model: a backup of some positions, computed from those around them alone."""

import numpy as np
import pytest
from support.factors import keep_factors

import tessella as ts
from tessella.mdp.compilation import in_float64, to_device
from tessella.mdp.stages.partition import (
    Block,
    Partition,
    build_block_backend,
    find_partition,
)
from tessella.mdp.stages.scatter import JointMatrix
from tessella.mdp.stages.stage import ExpectedReward
from tessella.mdp.stages.staged import Staged

PLACES, MOODS = 30, 4
GRID = {"place": range(PLACES), "mood": range(MOODS)}
SLIP = ts.Noise("slip", [-1, 0, 2], lambda mood: np.array([0, 0.5, 0.5]) + mood / 8 * [1, 0, -1])


def staged(*stages, **more) -> ts.MDP:
    return ts.MDP.staged(GRID, (0, 1, 2), 0.9, stages, action_name="step", **more)


def decided(between="error", by=1.0):
    return ts.Decide(
        "place",
        to=lambda place, step: np.clip(place + by * step, 0, PLACES - 1),
        pays=lambda place, step: place * step * 0.1,
        between=between,
    )


def by_place(place):
    stay = 0.5 + 0.4 * place / PLACES
    return np.where(np.eye(MOODS, dtype=bool), stay, (1 - stay) / (MOODS - 1))


MODELS = {
    "shifts": lambda: staged(decided(), ts.Shift("place", SLIP, edge="reflect")),
    "between": lambda: staged(decided("interpolate", 0.5), ts.Shift("place", SLIP, edge="clip")),
    "chains": lambda: staged(decided(), ts.Move("mood", by_place), ts.Pay(lambda place: place)),
    "jumps": lambda: staged(
        decided(),
        ts.Jump(
            ts.Noise("way", [0, 1], [0.3, 0.7]),
            to=lambda place, mood, way: {
                "place": np.clip(place - way, 0, PLACES - 1),
                "mood": (mood + way) % MOODS,
            },
        ),
    ),
    "few": lambda: staged(  # axes touched by a jump: a matrix on them
        decided(),
        ts.Jump(
            ts.Noise("way", range(8), np.arange(8) / 28),
            to=lambda place, way: {"place": np.clip(place - way % 3, 0, PLACES - 1)},
        ),
        ts.Move("mood", by_place),
    ),
    "scratch": lambda: staged(
        ts.Decide("sent", to=lambda step: step),
        ts.Shift("place", SLIP, edge="clip"),
        ts.Decide("place", to=lambda place, sent: np.clip(place + sent, 0, PLACES - 1)),
        scratch={"sent": range(3)},
    ),
}


def backups(program, arrays, w):
    """(A, *grid) backups of every action."""
    tail = program.shared_backup(arrays, w, True)
    return np.stack(
        [program.action_backup(arrays, tail, a, True) for a in range(program.n_actions)]
    )


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("axis", [0, 1])
@in_float64
def test_the_middle_of_a_window_is_what_the_whole_model_gives(name, axis):
    dynamics = MODELS[name]().dynamics
    assert isinstance(dynamics, Staged)
    reach, length = dynamics.max_displacement(axis), dynamics.shape[axis]
    if reach is None:
        assert (name, axis) in (("chains", 1), ("few", 1)), "a full matrix reaches everywhere"
        return
    made = Partition(axis, length, 3, *reach)
    w = np.random.default_rng(1).normal(size=dynamics.shape)
    program, whole = build_block_backend(dynamics, made, None), dynamics.backend_model
    exact = backups(whole.backend, whole.arrays, to_device(w))
    for block in (Block(made, k) for k in range(made.count)):
        here = np.clip(np.arange(made.block_with_halo) + block.window_start, 0, length - 1)
        arrays = to_device([stage.arrays() for stage in block.stages(dynamics)])
        found = backups(program, arrays, to_device(np.take(w, here, axis)))
        rows = np.arange(block.first, min(block.first + made.block_length, length))
        middle = np.take(found, rows - block.window_start, axis + 1)
        np.testing.assert_allclose(middle, np.take(exact, rows, axis + 1), rtol=1e-13)


def test_a_reach_is_no_wider_than_what_the_stages_do():
    by_name = {name: make().dynamics for name, make in MODELS.items()}
    found = {name: dynamics.max_displacement(0) for name, dynamics in by_name.items()}
    assert found == {
        "shifts": (2, 4),
        "between": (1, 3),
        "chains": (0, 2),
        "jumps": (1, 2),
        "few": (2, 2),
        "scratch": (1, 4),
    }


def test_a_jump_that_touches_few_axes_is_cut_along_those_too_and_swept_in_place():
    mdp = MODELS["few"]()
    assert isinstance(mdp.dynamics, Staged)
    assert isinstance(mdp.dynamics.stages[1].operation, JointMatrix)
    found, usual = find_partition(mdp.dynamics, 3), ts.solve(mdp, tol=1e-6)
    assert found is not None
    assert (found.axis, found.halo_below, found.halo_above) == (0, 2, 2)
    swept = ts.solve(mdp, ts.InPlace(1e-6, block_states=40))
    assert np.abs(swept.value - usual.value).max() <= swept.error_bound + usual.error_bound


def test_rewards_kept_as_factors_are_cut_as_factors():
    dynamics = keep_factors(ts.inventory(max_stock=600, max_regime=90, max_demand=9)).dynamics
    assert isinstance(dynamics, Staged)
    made = find_partition(dynamics, 4)
    assert made is not None
    block = Block(made, 1)
    lean = block.stages(dynamics)[1].reward
    assert isinstance(lean, ExpectedReward)
    first = block.window_start
    whole = np.asarray(dynamics.stages[1].reward)[:, first : first + made.block_with_halo]
    np.testing.assert_allclose(np.asarray(lean), whole, rtol=1e-13)
