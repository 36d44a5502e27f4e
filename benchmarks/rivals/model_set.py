"""The models of the comparison, in groups of growing size.

The groups, in the order of a run, so that a run that is out of time skips the last ones:

    structured          the inventory model at five sizes, defined by its settings
    random              rows of random successors: no structure
    maps                slippery maps with holes, like FrozenLake, up to 300 x 300
    discounts           the smallest structured model, with discounts from 0.9 to 0.9999
    averages            the average per period, for packages that support it
    published averages  published problems with an average
    published           published problems with a discount, at their default settings
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from models import Model

import tessella as ts

INVENTORY_SIZES = ((32, 24), (100, 50), (200, 100), (500, 250), (1000, 500))
DISCOUNTS = (0.9, 0.99, 0.999, 0.9999)
RANDOM_TABLES = (
    (200, 4, 10, 0.95),
    (5_000, 5, 20, 0.95),
    (20_000, 5, 20, 0.95),
    (20_000, 5, 20, 0.999),
    (100_000, 4, 8, 0.99),
)
MAP_SIDES = (10, 30, 100, 300)
PUBLISHED = (
    "maintenance",
    "battery_arbitrage",
    "hydro_reservoir",
    "traffic_intersection",
    "perishable",
    "platelets",
)
PUBLISHED_AVERAGES = ("dual_sourcing", "lost_sales", "two_class_admission")


def list_models(folder: Path, quick: bool = False) -> list[Model]:
    """All models, or the small ones if ``quick``; ``folder`` is for arrays of published models."""
    sizes = INVENTORY_SIZES[:2] if quick else INVENTORY_SIZES
    return [
        *(_describe_inventory(*size, 0.95, "structured") for size in sizes),
        *(_describe_random(n, a, k, g) for n, a, k, g in _select(RANDOM_TABLES, quick)),
        *(
            Model(f"map {n} x {n}", "lake", (n,), 0.99, n * n, "maps")
            for n in _select(MAP_SIDES, quick)
        ),
        *(
            _describe_inventory(*INVENTORY_SIZES[0], g, "discounts")
            for g in _select(DISCOUNTS, quick)
        ),
        *(_describe_inventory(*size, 1, "averages") for size in sizes[:2]),
        *(
            _describe_published(name, folder, "published averages")
            for name in _select(PUBLISHED_AVERAGES, quick)
        ),
        *(_describe_published(name, folder, "published") for name in _select(PUBLISHED, quick)),
    ]


def _select(things: Sequence, quick: bool) -> Sequence:
    return things[:2] if quick else things


def _describe_inventory(stock: int, regime: int, discount: float, group: str) -> Model:
    states = (stock + 1) * (regime + 1)
    criterion = "average" if discount == 1 else f"{discount:g}"
    return Model(
        f"inventory {states:,}, {criterion}", "inventory", (stock, regime), discount, states, group
    )


def _describe_random(states: int, actions: int, successors: int, discount: float) -> Model:
    name = f"random {states:,} x {actions} x {successors}, {discount:g}"
    return Model(name, "random", (states, actions, successors), discount, states, "random")


def _describe_published(name: str, folder: Path, group: str) -> Model:
    """A published problem; ``write_arrays`` saves its pairs and rows."""
    mdp = ts.problem(name).build()
    criterion = "average" if mdp.discount == 1 else f"{mdp.discount:.4g}"
    title, settings = f"{name} {mdp.n_states:,}, {criterion}", (name, str(folder / f"{name}.npz"))
    return Model(title, "published", settings, mdp.discount, mdp.n_states, group)


def write_arrays(model: Model) -> None:
    """Save the arrays of a published model."""
    if model.kind != "published":
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
