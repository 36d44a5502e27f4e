"""What is swept: for each kind a function from a seed to the faults of that seed's case."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from support import judging
from support.awkward import Case, numbered
from support.draws import Draws
from support.exact import World, read_stages
from support.stories import NUMBERS, story

import tessella as ts
from soak.checker import checker
from soak.studies import killed_study


@dataclass(frozen=True)
class Kind:
    """Cases of one kind.

    Attributes:
        faults: seed -> what is wrong, in words.
        cases: so many in one process.
    """

    faults: Callable[[int], list[str]]
    cases: int


def staged(seed: int) -> list[str]:
    """Random stages, against dense arrays and fractions; at times by another method."""
    case = story(seed)
    found = judging.against_dense(case)
    methods = [None, ts.PolicyIteration(), ts.ModifiedPolicyIteration(), ts.ValueIteration()]
    method = methods[seed // NUMBERS % len(methods)]
    if method is not None and case.mdp.discount <= 0.99:
        found += [f"{type(method).__name__}: {f}" for f in judging.against_dense(case, method)]
    return found


def building(seed: int) -> list[str]:
    """Every way of building: optimum and policy value in rational arithmetic."""
    case = numbered(seed)
    return [f"{case}: {fault}" for fault in judging.optimum(case) + judging.worth(case)]


def certificates(seed: int) -> list[str]:
    """Every way of building: the enclosures of a certificate in rational arithmetic."""
    case = numbered(seed)
    return [f"{case}: {fault}" for fault in judging.certificate(case)]


def shapes(seed: int) -> list[str]:
    """A shop of random size, all in one process."""
    draws = Draws(np.random.default_rng(seed))
    stock, season = int(draws.rng.integers(5, 60)), int(draws.rng.integers(1, 6))
    draws.style, draws.discount = "plain", float(draws.rng.choice([0.9, 0.99]))
    law, _ = draws.law("demand", 4, {"season": season})
    stages = [
        ts.Decide(
            "stock",
            to=lambda stock, order: np.minimum(stock + order, top),
            pays=lambda order: -2.0 * order,
        ),
        ts.Shift(
            "stock",
            law,
            by=lambda demand: -demand,
            pays=lambda stock, demand: 5.0 * np.minimum(stock, demand) - 0.1 * stock,
        ),
        ts.Move("season", draws.rows((season,), season)),
    ]
    top = stock - 1
    world = World({"stock": range(stock), "season": range(season)}, (0, 2, 4), None, "order")
    mdp = ts.MDP.staged(
        world.axes, world.actions, draws.discount, stages, action_name=world.action_name
    )
    return judging.against_dense(Case("shapes", seed, mdp, read_stages(world, stages)))


KINDS = {
    "staged": Kind(staged, 160),
    "building": Kind(building, 1000),
    "certificates": Kind(certificates, 1000),
    "checker": Kind(checker, 1000),
    "studies": Kind(killed_study, 20),
    "shapes": Kind(shapes, 300),
}
