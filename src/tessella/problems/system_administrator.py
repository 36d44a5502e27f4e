"""A network of computers that fail; one of them can be rebooted in each period.

State: each computer on (1) or off (0). With p the share of its parents that are on (1 without any),

    P(on next) = (0.05 + 0.9 on) p,  all at once;   a reboot makes it 1, at a cost.

Each computer that is on pays 1.
"""

from __future__ import annotations

import numpy as np

from tessella.mdp.model import MDP
from tessella.problems.problem import CHANCE, DISCOUNT, PRICE, Choice, Number, Problem

NETWORKS = {  # the parents of each computer
    "tree": ((), (0,), (0,), (1,), (1,), (2,), (2,)),
    "1": ((2, 6), (0,), (0, 4), (2, 6), (5,), (1, 6, 7), (4,), (0,)),
    "2": (
        (3, 6, 7),
        (0, 1, 2, 4),
        (1, 2, 6, 7),
        (1, 2),
        (1, 2, 3, 4),
        (1, 4),
        (4, 5, 7),
        (3, 4, 5),
    ),
}


def _model(network: str, stays_on: float, comes_on: float, reboot_cost: float, discount: float):
    parents = NETWORKS[network]
    n = len(parents)
    on_SC = np.indices((2,) * n).reshape(n, -1).T  # (states, computers)
    share_SC = np.stack([_share_on(on_SC, above) for above in parents], axis=1)
    up_SC = np.where(on_SC == 1, stays_on, comes_on) * share_SC
    reboots_AC = np.vstack([np.zeros((1, n)), np.eye(n)])
    up_ASC = np.maximum(up_SC, reboots_AC[:, None, :])
    transition = np.ones((n + 1, 2**n, 2**n))
    for computer in range(n):
        up = up_ASC[..., computer, None]
        transition *= np.where(on_SC[:, computer] == 1, up, 1 - up)
    reward = on_SC.sum(axis=1)[:, None] - reboot_cost * reboots_AC.sum(axis=1)
    mdp = MDP.from_arrays(
        transition,
        reward,
        discount,
        grid={f"c{computer}": range(2) for computer in range(n)},
        actions=("wait", *(f"reboot {computer}" for computer in range(n))),
        action_name="do",
    )
    return mdp.with_start(mdp.n_states - 1)


def _share_on(on_SC: np.ndarray, above: tuple[int, ...]) -> np.ndarray:
    """(states,) share of these computers that are on; 1 if there are none."""
    return on_SC[:, list(above)].mean(axis=1) if above else np.ones(len(on_SC))


system_administrator = Problem(
    "system_administrator",
    "Which computer of a failing network to reboot",
    _model,
    parameters=(
        Choice("network", "tree", "who depends on whom", tuple(NETWORKS)),
        Number("stays_on", 0.95, "chance to stay on, all parents on", **CHANCE),
        Number("comes_on", 0.05, "chance to come on by itself, all parents on", **CHANCE),
        Number("reboot_cost", 0.45, "cost of a reboot", **PRICE),
        Number("discount", 0.99, "worth of the next period", **DISCOUNT),
    ),
    axes={"c#": "whether computer # is on (1) or off (0)"},
)
