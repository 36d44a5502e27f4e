"""Fingerprints distinguish models by their numbers, and pickled models are the same models."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace

import cloudpickle
import jax
import numpy as np
import pytest
import scipy.sparse as sp

from tessella.mdp.model import MDP
from tessella.mdp.simulate import simulate
from tessella.mdp.stages import Decide, Jump, Move, Noise, Pay, Shift
from tessella.problems.admission import queue_admission
from tessella.problems.inventory import inventory
from tessella.problems.registry import BENCHMARKS, benchmark


def test_the_same_model_has_the_same_fingerprint_in_this_and_another_process():
    here = benchmark("INV-Mix").fingerprint
    code = "from tessella.problems.registry import benchmark as b; print(b('INV-Mix').fingerprint)"
    there = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert benchmark("INV-Mix").fingerprint == here == there.stdout.strip()


def every_kind(dense: bool) -> MDP:
    """All five kinds of stage, with numbers that no rounding touches; a chain of either form."""
    half = Noise("u", [0, 1], [0.5, 0.5])
    chain = np.eye(8) if not dense else np.full((8, 8), 0.125)
    return MDP.staged(
        {"x": range(8), "y": [0, 1]},
        (0, 1),
        0.5,
        [
            Pay(lambda x, action: x - 2.0 * action),
            Decide("x", lambda x, action: np.maximum(x - action, 0)),
            Shift("x", half, pays=lambda u: -1.0 * u),
            Move("x", chain),
            Jump(half, lambda x, y, u: {"y": (y + u) % 2}),
        ],
    )


@pytest.mark.parametrize(
    ("dense", "begins"), [(False, "e2b3c38078c56739"), (True, "01856d834d35cd67")]
)
def test_a_fingerprint_in_a_saved_file_stays_what_it_was(dense, begins):
    """Classes may be renamed and moved; files that were saved before then still bear these."""
    assert every_kind(dense).fingerprint.startswith(begins)


NUMBERS = {
    inventory: {
        "max_stock": 31,
        "max_regime": 23,
        "orders": (0, 4, 8, 12, 17),
        "demand_base": 1.81,
        "demand_slope": 0.37,
        "nonlinearity": "hard",
        "strength": 0.9,
        "max_demand": 54,
        "unit_cost": 0.26,
        "fixed_cost": 0.21,
        "holding_cost": 0.09,
        "shortage_cost": 1.56,
        "discount": 0.96,
    },
    queue_admission: {
        "max_queue": 29,
        "max_regime": 19,
        "arrival_base": 1.1,
        "arrival_slope": 0.36,
        "nonlinearity": "bursty",
        "strength": 2.4,
        "max_arrivals": 44,
        "service_rate": 4.1,
        "max_service": 19,
        "admission_reward": 2.1,
        "holding_cost": 0.11,
        "overflow_cost": 4.1,
        "rejection_cost": 0.41,
        "discount": 0.96,
    },
}


@pytest.mark.parametrize("problem", NUMBERS)
def test_every_parameter_changes_the_fingerprint(problem):
    prints = [problem(**{name: value}).fingerprint for name, value in NUMBERS[problem].items()]
    prints.append(problem().fingerprint)
    assert len(set(prints)) == len(prints)


def test_what_is_no_part_of_the_model_leaves_the_fingerprint_alone():
    plain = inventory().fingerprint
    assert inventory(observation_noise=0.1, name="other").fingerprint == plain
    mdp = inventory()
    _ = mdp.reward, mdp.dynamics.backend_model, mdp.dynamics.row_sums
    assert replace(mdp).fingerprint == plain
    everything = np.ones((33, 25, 5), dtype=bool)
    assert replace(mdp, feasible=everything.reshape(825, 5)).fingerprint == plain


def test_every_number_of_a_table_changes_the_fingerprint():
    rng = np.random.default_rng(0)
    P, r = rng.dirichlet(np.ones(3), (2, 3)), rng.normal(size=(3, 2))
    grid, mask = {"x": [0, 1, 2]}, np.ones((3, 2), dtype=bool)
    build = MDP.from_arrays
    prints = [build(P, r, 0.9, grid=grid).fingerprint]
    for index in np.ndindex(P.shape):
        changed = P.copy()
        changed[index] = np.nextafter(changed[index], 1)
        prints.append(build(changed, r, 0.9, grid=grid).fingerprint)
    for index in np.ndindex(r.shape):
        changed = r.copy()
        changed[index] = np.nextafter(changed[index], 9)
        prints.append(build(P, changed, 0.9, grid=grid).fingerprint)
        without = mask.copy()
        without[index] = False
        prints.append(build(P, r, 0.9, grid=grid, feasible=without).fingerprint)
    prints.append(build(P, r, np.nextafter(0.9, 1), grid=grid).fingerprint)
    prints.append(build(P, r, 0.9, grid={"x": [0, 1, 3]}).fingerprint)
    prints.append(build(P, r, 0.9, grid={"y": [0, 1, 2]}).fingerprint)
    prints.append(build(P, r, 0.9, grid=grid, actions=["a", "b"]).fingerprint)
    prints.append(build(P, r, 0.9, grid=grid).with_start([0.5, 0.25, 0.25]).fingerprint)
    assert len(set(prints)) == len(prints)
    matrices = [sp.csr_array(p) for p in P]
    for matrix in matrices:
        matrix.indices = matrix.indices.astype(np.int64)
        matrix.indptr = matrix.indptr.astype(np.int64)
    assert build(matrices, r, 0.9, grid=grid).fingerprint == prints[0]
    zeros = [build(P, sign * np.zeros((3, 2)), 0.9).fingerprint for sign in (1, -1)]
    assert zeros[0] == zeros[1]


def story(**changes):
    """One stage of each kind; a change of any of its numbers must be seen."""
    c = {"pay": 1.0, "to": 1, "p": 0.5, "by": 1, "edge": "clip", "row": 0.5, "jump": 2} | changes
    return MDP.staged(
        {"x": range(4), "y": range(3)},
        (0, 1),
        0.9,
        [
            Pay(lambda x: c["pay"] * x),
            Decide("x", to=lambda x: np.minimum(x + c["to"], 3)),
            Shift(
                "x",
                Noise("w", [0, 1], [c["p"], 1 - c["p"]]),
                by=lambda w: c["by"] * w,
                edge=c["edge"],
            ),
            Move("y", [[c["row"], 1 - c["row"], 0], [0, 1, 0], [0, 0, 1]]),
            Jump(Noise("v", [0, 1], [0.5, 0.5]), to=lambda y, v: {"y": (y + c["jump"] * v) % 3}),
        ],
    ).fingerprint


def test_every_number_of_a_stage_changes_the_fingerprint():
    changes = [
        {},
        {"pay": 1.5},
        {"to": 2},
        {"p": 0.25},
        {"by": -2},
        {"edge": "reflect"},
        {"edge": "wrap"},
        {"row": 0.25},
        {"jump": 1},
    ]
    prints = [story(**change) for change in changes]
    assert len(set(prints)) == len(prints)
    assert story() == prints[0]


@pytest.mark.parametrize("label", BENCHMARKS)
def test_benchmarks_are_told_apart(label):
    others = {b: benchmark(b).fingerprint for b in BENCHMARKS if b != label}
    same = [b for b, mark in others.items() if mark == benchmark(label).fingerprint]
    # Only the observation noise of the samples differs within these groups.
    groups = ({"INV-Mix", "INV-N0", "INV-NH"}, {"QUE-Mix", "QUE-N0"})
    expected = next((group for group in groups if label in group), {label})
    assert set(same) == expected - {label}


def test_pickled_models_are_the_same_in_every_way(world):
    for mdp in (world.staged, world.tabular, world.by_outcome):
        _ = mdp.dynamics.backend_model
        again = cloudpickle.loads(cloudpickle.dumps(mdp))
        assert again.fingerprint == mdp.fingerprint
        policy = mdp.feasible_mask.argmax(axis=1)
        left, right = (simulate(m, policy, 5, 1, paths=50) for m in (mdp, again))
        np.testing.assert_array_equal(left.states, right.states)
        np.testing.assert_array_equal(left.rewards, right.rewards)


def test_a_pickled_model_keeps_its_64_bits():
    mdp = benchmark("QUE-Mix")
    _ = mdp.dynamics.backend_model, mdp.dynamics.compile(), mdp.dynamics.as_rows()
    again = cloudpickle.loads(cloudpickle.dumps(mdp))
    assert not {"backend_model", "_prepared", "_rows"} & set(again.dynamics.__dict__)
    floats = [
        leaf for leaf in jax.tree.leaves(again.dynamics.compile().arrays) if leaf.dtype.kind == "f"
    ]
    assert {leaf.dtype.name for leaf in floats} == {"float64"}
