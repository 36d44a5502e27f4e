"""What a process with several devices does for ``test_devices``: solve models, write down the rest.

python sharing.py OUT                   8 devices of this process
python sharing.py OUT ADDRESS COUNT I   2 devices of this process, the I-th of COUNT
"""

import json
import sys
from pathlib import Path

import jax
import numpy as np

import tessella as ts
from tessella.solvers.execution_plan import make_plan


def shop(**settings) -> ts.MDP:
    """A small inventory with a long first axis."""
    told = {"max_stock": 120, "max_regime": 4, "max_demand": 6, "orders": (0, 3)} | settings
    return ts.inventory(**told)


def ring(edge: str = "reflect") -> ts.MDP:
    """A walk with forbidden moves, rewards by state and an axis that no eight devices divide."""
    return ts.MDP.staged(
        {"place": range(83), "mood": ["low", "high"]},
        actions=(-2, 0, 1),
        action_name="step",
        discount=0.9,
        stages=[
            ts.Pay(lambda place, step: np.sin(place / 5.0) - 0.1 * np.abs(step)),
            ts.Decide("place", to=lambda place, step: np.clip(place + step, 0, 82)),
            ts.Shift("place", ts.Noise("slip", [-1, 0, 2], [0.25, 0.5, 0.25]), edge=edge),
            ts.Move("mood", [[0.7, 0.3], [0.4, 0.6]], pays=lambda mood: (mood == "high") * 1.0),
        ],
        feasible=lambda place, step: (place + step >= 0) & (place + step < 83),
    )


def told(solution: ts.Solution) -> dict:
    held = solution.get_raw("value")
    parts = held.array.addressable_shards
    return {
        "last": solution.part("value", np.s_[-1, :]).tolist(),
        "part": max(part.data.size for part in parts),
        "devices": len({part.device for part in parts}),
        "value": solution.value.tolist(),
        "policy": solution.policy.table.tolist(),
        "bound": solution.error_bound,
        "sweeps": solution.sweeps,
        "addressable": bool(held.array.is_fully_addressable),
    }


def planned() -> dict:
    """A plan for eight devices, and what the first of them holds of the model."""
    made = ts.plan(shop(), tol=1e-6, devices=8).cost
    leaves = jax.tree.leaves(make_plan(shop(), devices=8).backend_model.arrays)
    first = [leaf.addressable_shards[0].data.nbytes for leaf in leaves]
    return {
        "own": made.arrays["the model's own"],
        "held": sum(first),
        "point": made.arrays["a point and its backup"],
        "devices": made.devices,
        "compiled": made.compiled,
        "seconds": made.sweep_seconds,
        "said": made.sentence,
    }


def on_eight() -> dict:
    refused = []
    for devices in (0, 9):
        try:
            ts.solve(shop(), devices=devices)
        except ts.ArgumentError as error:
            refused.append(str(error))
    try:
        ts.solve(ring("wrap"), devices=8)
    except ts.ModelError as error:
        refused.append(str(error))
    usual = ts.solve(shop(), tol=1e-9, devices=8)
    assert usual.plan is not None
    found = told(usual)  # before a certificate reads all of it
    loss = ts.certify(usual, usual.policy).worst_loss
    return {
        "plan": planned(),
        "usual": found,
        "certified": [len(usual.plan.devices), len(usual.policy_plan.devices), loss.upper],
        "ring": told(ts.solve(ring(), ts.ValueIteration(1e-9), devices=8)),
        "refused": refused,
    }


def on_hosts(address: str, count: int, mine: int) -> dict:
    jax.distributed.initialize(address, count, mine)
    solution = ts.solve(shop(), ts.ValueIteration(1e-7), devices=jax.device_count())
    refused = ""
    try:
        ts.solve(shop(), devices=jax.device_count(), checkpoint=f"{sys.argv[1]}.npz")
    except ts.ArgumentError as error:
        refused = str(error)
    return {"usual": told(solution), "refused": refused}


def main() -> None:
    out, *host = sys.argv[1:]
    done = on_hosts(host[0], int(host[1]), int(host[2])) if host else on_eight()
    Path(out).write_text(json.dumps(done))


if __name__ == "__main__":
    main()
