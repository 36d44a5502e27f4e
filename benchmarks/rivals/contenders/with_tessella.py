"""tessella: structured models as stages, all else as pairs; the automatic method."""

import jax.numpy  # noqa: F401 - what the package imports when first used is no part of building
import numpy as np
import scipy.sparse.linalg  # noqa: F401
from models import FIXED, HOLD, LACK, MOST, ORDERS, UNIT, demand_law, walk_law

import tessella as ts
import tessella.solvers.solve


def build(model):
    if model.kind == "inventory":
        return staged(*model.settings, ts.Average() if model.average else model.discount)
    if model.kind == "zoo":
        return ts.problem(model.settings[0]).build()
    pairs = model.pairs()
    return ts.MDP.from_pairs(pairs.state, pairs.action, pairs.rows, pairs.reward, model.discount)


def staged(stock, regime, discount):
    law, walk = demand_law(regime + 1), walk_law(regime + 1)
    demand = ts.Noise("demand", range(MOST + 1), lambda z: law[z[..., 0]])
    steps = ts.Noise("step", (-1, 0, 1), lambda z: walk[z[..., 0]])
    return ts.MDP.staged(
        {"x": range(stock + 1), "z": range(regime + 1)},
        ORDERS,
        discount,
        [
            ts.Decide(
                "x",
                to=lambda x, order: np.minimum(x + order, stock),
                pays=lambda order: -(UNIT * order + FIXED * (order > 0)),
            ),
            ts.Shift(
                "x",
                demand,
                by=lambda demand: -demand,
                pays=lambda x, demand: (
                    -HOLD * np.maximum(x - demand, 0) - LACK * np.maximum(demand - x, 0)
                ),
            ),
            ts.Shift("z", steps),
        ],
        action_name="order",
    )


def solve(mdp, tol):
    found = ts.solve(mdp, tol=tol)
    value = found.value.ravel() if found.gain is None else np.array([found.gain])
    return value, found.policy.table.ravel()
