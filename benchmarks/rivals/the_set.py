"""Which models the contenders meet, in groups that grow; who fails at one is not asked for larger.

In the order in which they are met, so that what a run has no time for is the last of them:

    structured          the inventory model at five sizes, told by its settings
    random              rows of random successors: nothing to make use of
    maps                slippery maps with holes, as FrozenLake, up to 300 x 300
    discounts           the smallest structured model, with discounts from 0.9 to 0.9999
    averages            the average per period, for those that know it
    published averages  the same, of problems of the zoo
    published           problems of the zoo with a discount, as they come
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from models import Model

import tessella as ts

INVENTORY = ((32, 24), (100, 50), (200, 100), (500, 250), (1000, 500))
DISCOUNTS = (0.9, 0.99, 0.999, 0.9999)
RANDOM = (
    (200, 4, 10, 0.95),
    (5_000, 5, 20, 0.95),
    (20_000, 5, 20, 0.95),
    (20_000, 5, 20, 0.999),
    (100_000, 4, 8, 0.99),
)
MAPS = (10, 30, 100, 300)
PUBLISHED = (
    "maintenance",
    "battery_arbitrage",
    "hydro_reservoir",
    "traffic_intersection",
    "perishable",
    "platelets",
)
AVERAGES = ("dual_sourcing", "lost_sales", "two_class_admission")


def the_set(folder: Path, quick: bool = False) -> list[Model]:
    """All models; of ``quick`` the small ones. Arrays of the zoo will stand in ``folder``."""
    sizes = INVENTORY[:2] if quick else INVENTORY
    return [
        *(_inventory(*size, 0.95, "structured") for size in sizes),
        *(_random(n, a, k, g) for n, a, k, g in _some(RANDOM, quick)),
        *(Model(f"map {n} x {n}", "lake", (n,), 0.99, n * n, "maps") for n in _some(MAPS, quick)),
        *(_inventory(*INVENTORY[0], g, "discounts") for g in _some(DISCOUNTS, quick)),
        *(_inventory(*size, 1, "averages") for size in sizes[:2]),
        *(_published(name, folder, "published averages") for name in _some(AVERAGES, quick)),
        *(_published(name, folder, "published") for name in _some(PUBLISHED, quick)),
    ]


def _some(things: Sequence, quick: bool) -> Sequence:
    return things[:2] if quick else things


def _inventory(stock: int, regime: int, discount: float, group: str) -> Model:
    states = (stock + 1) * (regime + 1)
    told = "average" if discount == 1 else f"{discount:g}"
    return Model(
        f"inventory {states:,}, {told}", "inventory", (stock, regime), discount, states, group
    )


def _random(states: int, actions: int, successors: int, discount: float) -> Model:
    name = f"random {states:,} x {actions} x {successors}, {discount:g}"
    return Model(name, "random", (states, actions, successors), discount, states, "random")


def _published(name: str, folder: Path, group: str) -> Model:
    """A problem of the zoo, whose pairs and rows will be in a file."""
    mdp = ts.problem(name).build()
    told = "average" if mdp.discount == 1 else f"{mdp.discount:.4g}"
    title, settings = f"{name} {mdp.n_states:,}, {told}", (name, str(folder / f"{name}.npz"))
    return Model(title, "zoo", settings, mdp.discount, mdp.n_states, group)


def prepare(model: Model) -> None:
    """Write the arrays of a published model."""
    if model.kind != "zoo":
        return
    name, path = model.settings
    pairs = ts.problem(name).build().to_pairs()
    rows = pairs.transition
    np.savez(
        path,
        state=pairs.states,
        action=pairs.choices,
        reward=pairs.reward,
        data=rows.data,
        to=rows.indices,
        start=rows.indptr,
    )
