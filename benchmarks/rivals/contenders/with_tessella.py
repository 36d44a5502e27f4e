"""tessella: structured models as stages, other models as pairs; the automatic method."""

import jax.numpy  # noqa: F401 - imports at first use are not part of building
import numpy as np
import scipy.sparse.linalg  # noqa: F401
from models import (
    FIXED_COST,
    HOLDING_COST,
    MAX_DEMAND,
    ORDERS,
    SHORTAGE_COST,
    UNIT_COST,
    compute_demand_law,
    compute_walk_law,
)

import tessella as ts
import tessella.solvers.solve


def build(model):
    if model.kind == "inventory":
        return build_staged(*model.settings, ts.Average() if model.is_average else model.discount)
    if model.kind == "published":
        return ts.problem(model.settings[0]).build()
    pairs = model.build_pairs()
    return ts.MDP.from_pairs(pairs.state, pairs.action, pairs.rows, pairs.reward, model.discount)


def build_staged(stock, regime, discount):
    law, walk = compute_demand_law(regime + 1), compute_walk_law(regime + 1)
    demand = ts.Noise("demand", range(MAX_DEMAND + 1), lambda z: law[z[..., 0]])
    steps = ts.Noise("step", (-1, 0, 1), lambda z: walk[z[..., 0]])
    return ts.MDP.staged(
        {"x": range(stock + 1), "z": range(regime + 1)},
        ORDERS,
        discount,
        [
            ts.Decide(
                "x",
                to=lambda x, order: np.minimum(x + order, stock),
                pays=lambda order: -(UNIT_COST * order + FIXED_COST * (order > 0)),
            ),
            ts.Shift(
                "x",
                demand,
                by=lambda demand: -demand,
                pays=lambda x, demand: (
                    -HOLDING_COST * np.maximum(x - demand, 0)
                    - SHORTAGE_COST * np.maximum(demand - x, 0)
                ),
            ),
            ts.Shift("z", steps),
        ],
        action_name="order",
    )


def solve(mdp, tol):
    solution = ts.solve(mdp, tol=tol)
    value = solution.value.ravel() if solution.gain is None else np.array([solution.gain])
    return value, solution.policy.table.ravel()
