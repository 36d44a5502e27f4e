"""Vertical collision avoidance (VerticalCAS): which advisory a pilot gets, second by second.

State: h, the intruder's altitude above our aircraft (ft); both climb rates (ft/s); the previous
advisory; whether the pilot follows it. After a number of seconds the aircraft lose their horizontal
separation; being within 175 ft then is a collision. In each second the pilot starts to follow the
new advisory or not, then both aircraft accelerate by a_own and a_int, drawn from three values each,

    h' = h + (v_int + a_int / 2) - (v_own + a_own / 2),    v' = v + a,

with multilinear interpolation between cut points, clipped to the ends of the axes. Advisories:
clear of conflict (COC), do not climb or descend (DNC, DND), descend or climb at 1,500 ft/min (DES,
CL), strengthened (SDES, SCL) and at 2,500 ft/min. The model is symmetric in up and down. It is that
of K. Julian and M. Kochenderfer (2019), who fitted networks to its policy; nothing is discounted.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from tessella.criteria.finite_horizon import FiniteHorizon
from tessella.mdp.model import MDP
from tessella.mdp.stages import Decide, Jump, Move, Noise, Pay
from tessella.problems.problem import Problem, integer

ADVISORIES = (
    "COC",
    "DNC",
    "DND",
    "DES1500",
    "CL1500",
    "SDES1500",
    "SCL1500",
    "SDES2500",
    "SCL2500",
)
MIRRORED_ADVISORY = (0, 2, 1, 4, 3, 6, 5, 8, 7)  # up and down exchanged
# Climb rates between these do not comply with an advisory.
CLIMB_RATE_MIN = np.array([-100, 0, -100, -25, -100, -25, -100, -41.67, -100])
CLIMB_RATE_MAX = np.array([100, 100, 0, 100, 25, 100, 25, 100, 41.67])
GENTLE_ACCELERATIONS = (8.33, 9.33, 7.33)  # ft/s^2
FIRM_ACCELERATIONS = (10.7, 11.7, 9.7)  # ft/s^2
ACCELERATIONS = np.array(
    [
        (0, 3, -3),
        *(np.outer((-1, 1, -1, 1), GENTLE_ACCELERATIONS)),
        *(np.outer((-1, 1, -1, 1), FIRM_ACCELERATIONS)),
    ]
)
ACCELERATION_PROBABILITIES = np.array([0.5, 0.25, 0.25])
ALTITUDE_BLOCKS = ((-8000, -4000, 5), (-3000, -1250, 8), (-1000, -800, 3), (-700, -150, 12))
RATE_BLOCKS = ((-100, -60, 5), (-50, -35, 4))


def _cut_points(
    blocks: tuple[tuple[int, int, int], ...], centre: tuple[int, int, int], every: int
) -> NDArray[np.float64]:
    """The middle published cut point, each ``every``-th on both sides of it, and the ends."""
    below = np.concatenate([np.linspace(*block) for block in blocks])
    cuts = np.concatenate([below, np.linspace(*centre), -below[::-1]])
    middle = len(cuts) // 2
    inner = cuts[middle % every :: every]
    return np.unique(np.concatenate([cuts[:1], inner, cuts[-1:]]))


def _is_down(advisory):
    return advisory % 2 == 1


def _is_up(advisory):
    return (advisory > 0) & (advisory % 2 == 0)


def _limit_acceleration(a, v, low, high):
    """An acceleration that stops where the climb rate complies."""
    a = np.where(v + a < low, low - v, np.where(v + a > high, high - v, a))
    return np.where((v <= low) | (v >= high), 0.0, a)


def _follow_probability(previous, follows, advisory):
    """The chance that the pilot follows the new advisory."""
    is_certain = (advisory == 0) | ((follows == 1) & (previous == advisory))
    same_sense = (_is_down(previous) & _is_down(advisory)) | (_is_up(previous) & _is_up(advisory))
    return np.where(is_certain, 1.0, np.where((previous != 0) & same_sense, 1 / 4, 1 / 6))


def _costs(h, own, intruder, previous, advisory):
    """What an advisory costs in a state, whatever the time."""
    separation = np.abs(h)
    closure = np.abs(intruder - own)
    has_advisory = advisory > 0
    low = CLIMB_RATE_MIN[advisory]
    high = CLIMB_RATE_MAX[advisory]
    is_corrective = has_advisory & (low < own) & (own < high)
    is_preventive = has_advisory & ~is_corrective
    is_crossing = ((h < 0) & _is_down(advisory)) | ((h > 0) & _is_up(advisory))
    is_weak = (advisory == 1) | (advisory == 2)
    strongest = np.where(previous <= 2, 4, np.where(previous <= 4, 6, 8))
    shortfall = np.where(_is_down(advisory), own - low, high - own)
    is_reversal = (_is_down(previous) & _is_up(advisory)) | (_is_up(previous) & _is_down(advisory))
    is_stronger = previous < advisory
    is_weaker = has_advisory & (previous > advisory)
    is_slow = closure < 2000 / 60
    cost = 1.0 * (advisory > strongest)
    cost = cost + is_crossing * (1.0 * is_preventive + 0.01 * (separation > 500))
    cost = cost + is_corrective * (1e-5 + 0.1 * ((separation > 650) & is_slow))
    cost = cost + is_corrective * 0.03 * ((separation > 1000) & (closure < 4000 / 60))
    cost = cost + is_preventive * 0.01 * ((separation > 650) & is_slow)
    cost = cost + np.where(is_reversal, 8e-3, 5e-3 * is_stronger + 1e-3 * is_weaker)
    cost = cost + is_weak * (1e-4 + 5e-4 * (closure > 50))
    cost = cost + (has_advisory & ~is_weak) * 1.5e-3 * (closure > 50)
    cost = cost + 2.3e-3 * (closure < 50) - 1e-9 * (advisory == 0)
    return cost + is_corrective * 3e-5 * shortfall + has_advisory * 1.5e-3 * (closure > 50)


def _vertical_cas_model(
    seconds: int = integer(
        20, "to the loss of horizontal separation; published 40", low=1, high=99
    ),
    every: int = integer(6, "n: every n-th of the published cut points is used", low=1, high=16),
) -> MDP:
    rates = _cut_points(RATE_BLOCKS, (-30, 30, 21), every)
    axes = {
        "h": _cut_points(ALTITUDE_BLOCKS, (-100, 100, 9), every),
        "own": rates,
        "intruder": rates,
        "previous": range(len(ADVISORIES)),
        "follows": range(2),
    }

    def response_probabilities(previous, advisory):
        follows = np.array([[0], [1]])
        chance = _follow_probability(previous, follows, advisory)
        return np.concatenate([1 - chance, chance], axis=-1)

    def move_aircraft(h, own, intruder, previous, follows, draw):
        by_pilot = draw // 3
        by_intruder = draw % 3
        followed = np.where(follows == 1, previous, 0)
        a = _limit_acceleration(
            ACCELERATIONS[followed, by_pilot],
            own,
            CLIMB_RATE_MIN[followed],
            CLIMB_RATE_MAX[followed],
        )
        b = _limit_acceleration(
            ACCELERATIONS[0, by_intruder], intruder, CLIMB_RATE_MIN[0], CLIMB_RATE_MAX[0]
        )
        height = h - own - a / 2 + intruder + b / 2
        return {"h": height, "own": own + a, "intruder": intruder + b}

    draws = Noise(
        "draw", range(9), np.outer(ACCELERATION_PROBABILITIES, ACCELERATION_PROBABILITIES).ravel()
    )
    return MDP.staged(
        axes,
        range(len(ADVISORIES)),
        FiniteHorizon(seconds + 1),
        [
            Pay(costs=_costs),
            Pay(costs=lambda h, time: 1.0 * ((time == seconds) & (np.abs(h) <= 175))),
            Move("follows", response_probabilities),
            Decide("previous", lambda advisory: advisory),  # all that follows asks for no action
            Jump(draws, move_aircraft, between="interpolate", edge="clip"),
        ],
        action_name="advisory",
    )


vertical_cas = Problem(
    "vertical_cas",
    "Advisories that keep two aircraft apart; every=1 are the published cut points",
    _vertical_cas_model,
    family="aircraft",
    axes={
        "time": "seconds gone",
        "h": "altitude of the intruder above our aircraft, in ft",
        "own": "climb rate of our aircraft, in ft/s",
        "intruder": "the intruder's climb rate, in ft/s",
        "previous": "the advisory given before",
        "follows": "whether the pilot follows it",
    },
)
