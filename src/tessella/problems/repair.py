"""What to repair and when: machines that wear, and a network of computers."""

from __future__ import annotations

import numpy as np

from tessella.criteria.average import Average
from tessella.mdp.model import MDP
from tessella.mdp.stages import Decide, Noise, Shift
from tessella.problems.problem import (
    CHANCE,
    DISCOUNT,
    PRICE,
    SIZE,
    Problem,
    Theory,
    choice,
    integer,
    number,
)
from tessella.problems.shared import LAZY_WALK


def _machine_replacement_model(
    worst: int = integer(30, "n: the wear at which it stops wearing", **SIZE),
    wear_chance: float = number(0.4, "p: chance to wear in a period", above=0.0, high=1.0),
    running_cost: float = number(1.0, "c: cost of a period, for each step of wear", **PRICE),
    price: float = number(40.0, "K: of a new machine", **PRICE),
) -> MDP:
    """When to replace a machine that wears, at average cost (Derman 1963).

    State: wear 0..n. A machine that runs costs c wear and wears by one with probability p; a new
    one costs K, and the period. Replacing from wear N on costs, by renewal,

        (K + c / p sum_{i < N} i) / (1 + N / p)    per period.
    """

    def wear_probabilities(replace):
        return np.where(replace == 1, (1.0, 0.0), (1 - wear_chance, wear_chance))

    return MDP.staged(
        {"wear": range(worst + 1)},
        (0, 1),
        Average(),
        [
            Shift(
                "wear",
                Noise("wears", (0, 1), wear_probabilities),
                costs=lambda wear, replace: np.where(replace == 1, price, running_cost * wear),
            ),
            Decide("wear", to=lambda wear, replace: np.where(replace == 1, 0, wear)),
        ],
        action_name="replace",
    )


machine_replacement = Problem(
    "machine_replacement",
    "When to replace a machine that wears",
    _machine_replacement_model,
    axes={"wear": "how worn the machine is"},
    theory=(Theory("threshold in wear", "replace from a wear on (Derman 1963)"),),
)


WEAR_MAX_STEPS = 4  # of wear in a period, at most


def _maintenance_model(
    max_wear: int = integer(30, "n: failed", low=1, high=100_000),
    max_load: int = integer(10, "l: the load is 0..l", low=0, high=10_000),
    relief: int = integer(10, "steps of wear that a service takes off", low=0, high=100_000),
    earns: float = number(0.5, "in a period, for each step of load and one more", **PRICE),
    wear_cost: float = number(0.3, "in a period, for each step of wear", **PRICE),
    service_cost: float = number(2.0, "cost of a service", **PRICE),
    overhaul_cost: float = number(12.0, "cost of an overhaul", **PRICE),
    failure_cost: float = number(20.0, "cost of a period in failure", **PRICE),
    discount: float = number(0.95, "worth of the next period", **DISCOUNT),
) -> MDP:
    """Maintenance of a machine whose load changes.

    State: wear 0..n and load 0..l. Let it run (0), service it (1: wear less by a few steps), or
    overhaul it (2: as new). It earns by the load while it is let run, wears by a binomial number of
    steps that rises with the load, and costs by its wear; at wear n it has failed, which costs
    more. The load takes a lazy walk.
    """

    def wear_probabilities(load):
        from scipy.stats import binom

        chance = 0.1 + 0.6 * load / max(max_load, 1)
        return binom.pmf(np.arange(WEAR_MAX_STEPS + 1), WEAR_MAX_STEPS, chance)

    def pays(wear):
        return -np.where(wear == max_wear, failure_cost, wear_cost * wear)

    def earned(wear, load, repair):
        runs = (repair == 0) & (wear < max_wear)
        spent = service_cost * (repair == 1) + overhaul_cost * (repair == 2)
        return earns * (1 + load) * runs - spent

    return MDP.staged(
        {"wear": range(max_wear + 1), "load": range(max_load + 1)},
        (0, 1, 2),
        discount,
        [
            Decide(
                "wear",
                to=lambda wear, repair: np.where(
                    repair == 2, 0, np.maximum(wear - relief * (repair == 1), 0)
                ),
                pays=earned,
            ),
            Shift("wear", Noise("wears", range(WEAR_MAX_STEPS + 1), wear_probabilities), pays=pays),
            Shift("load", LAZY_WALK),
        ],
        action_name="repair",
    )


maintenance = Problem(
    "maintenance",
    "Run, service or overhaul a machine whose load changes",
    _maintenance_model,
    axes={
        "wear": "how worn the machine is; at the last value it has failed",
        "load": "how hard it has to work",
    },
    theory=(
        Theory("monotone in wear", "the more it is worn, the more is repaired (Derman 1963)"),
        Theory("threshold in wear", "run, service, overhaul; where wear costs little, not so"),
    ),
)


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


def _system_administrator_model(
    network: str = choice("tree", "who depends on whom", tuple(NETWORKS)),
    stays_on: float = number(0.95, "chance to stay on, all parents on", **CHANCE),
    comes_on: float = number(0.05, "chance to come on by itself, all parents on", **CHANCE),
    reboot_cost: float = number(0.45, "cost of a reboot", **PRICE),
    discount: float = number(0.99, "worth of the next period", **DISCOUNT),
) -> MDP:
    """A network of computers that fail; one of them can be rebooted in each period.

    State: each computer on (1) or off (0). With p the share of its parents that are on (1 without
    any),

        P(on next) = (0.05 + 0.9 on) p,  all at once;   a reboot makes it 1, at a cost.

    Each computer that is on pays 1.
    """
    parents = NETWORKS[network]
    n = len(parents)
    on_SC = np.indices((2,) * n).reshape(n, -1).T  # (states, computers)
    share_SC = np.ones(on_SC.shape)  # share of a computer's parents that are on
    for computer, above in enumerate(parents):
        if above:
            share_SC[:, computer] = on_SC[:, list(above)].mean(axis=1)
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


system_administrator = Problem(
    "system_administrator",
    "Which computer of a failing network to reboot",
    _system_administrator_model,
    axes={"c#": "whether computer # is on (1) or off (0)"},
)
