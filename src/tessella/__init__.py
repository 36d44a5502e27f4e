"""tessella: from a model of repeated decisions to a small rule that you can read and trust.

The way of the data::

    benchmark, inventory, queue_admission, MDP.staged, MDP.from_...   -> MDP
    solve(mdp)                       -> Solution        evaluate(mdp, policy) -> Evaluation
    tessellate(solution)             -> Tessellation    measure(tessellation) -> Geometry
    draw(solution, n, ...)           -> Sample          fit(learner, sample)  -> Policy
    train(baseline, mdp, updates)    -> Policy
    certify(solution, policy)        -> Certificate

Names are loaded when first used, so importing tessella is quick.
"""

from __future__ import annotations

import sys
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

_HOME = {
    "tessella.errors": ("ModelError", "NotConverged"),
    "tessella.grid": ("StateGrid",),
    "tessella.mdp.model": ("MDP",),
    "tessella.mdp.policy": ("Policy",),
    "tessella.mdp.simulate": ("Paths", "simulate"),
    "tessella.mdp.stages": (
        "Decide",
        "Jump",
        "Move",
        "Noise",
        "Pay",
        "Shift",
        "truncated_poisson",
    ),
    "tessella.problems.benchmarks": ("BENCHMARKS", "benchmark"),
    "tessella.problems.inventory": ("inventory",),
    "tessella.problems.queue_admission": ("queue_admission",),
    "tessella.solve": (
        "Evaluation",
        "InexactPolicyIteration",
        "LinearProgramming",
        "ModifiedPolicyIteration",
        "Occupancy",
        "PolicyIteration",
        "Solution",
        "ValueIteration",
        "evaluate",
        "occupancy",
        "solve",
    ),
    "tessella.learn": (
        "ByOccupancy",
        "LinearBoundary",
        "LocalBoundary",
        "MarginBoundary",
        "NeuralBoundary",
        "Sample",
        "Stratified",
        "Uniform",
        "draw",
        "fit",
        "fit_batch",
    ),
    "tessella.baselines": ("DoubleQ", "FittedQ", "TabularQ", "train", "train_batch"),
    "tessella.certify": ("Certificate", "Estimate", "as_policy", "certify", "estimate"),
    "tessella.tessellation": (
        "Comparison",
        "Geometry",
        "Structure",
        "Tessellation",
        "compare",
        "examine",
        "measure",
        "switching_curves",
        "tessellate",
    ),
}
_WHERE = {name: home for home, names in _HOME.items() for name in names}

__all__ = sorted([*_WHERE, "__version__"])  # pyright: ignore[reportUnsupportedDunderAll]

if TYPE_CHECKING:
    from tessella.baselines import DoubleQ, FittedQ, TabularQ, train, train_batch
    from tessella.certify import Certificate, Estimate, as_policy, certify, estimate
    from tessella.errors import ModelError, NotConverged
    from tessella.grid import StateGrid
    from tessella.learn import (
        ByOccupancy,
        LinearBoundary,
        LocalBoundary,
        MarginBoundary,
        NeuralBoundary,
        Sample,
        Stratified,
        Uniform,
        draw,
        fit,
        fit_batch,
    )
    from tessella.mdp.model import MDP
    from tessella.mdp.policy import Policy
    from tessella.mdp.simulate import Paths, simulate
    from tessella.mdp.stages import Decide, Jump, Move, Noise, Pay, Shift, truncated_poisson
    from tessella.problems.benchmarks import BENCHMARKS, benchmark
    from tessella.problems.inventory import inventory
    from tessella.problems.queue_admission import queue_admission
    from tessella.solve import (
        Evaluation,
        InexactPolicyIteration,
        LinearProgramming,
        ModifiedPolicyIteration,
        Occupancy,
        PolicyIteration,
        Solution,
        ValueIteration,
        evaluate,
        occupancy,
        solve,
    )
    from tessella.tessellation import (
        Comparison,
        Geometry,
        Structure,
        Tessellation,
        compare,
        examine,
        measure,
        switching_curves,
        tessellate,
    )


class _Package(ModuleType):
    """Keeps the verb where a folder bears its name: ``tessella.solve`` is the function.

    Importing the folder ``solve`` would otherwise put the module in the function's place.
    """

    def __setattr__(self, name: str, value: object) -> None:
        if not (name in _WHERE and isinstance(value, ModuleType)):
            super().__setattr__(name, value)


sys.modules[__name__].__class__ = _Package


def __getattr__(name: str) -> Any:
    if name not in _WHERE:
        raise AttributeError(f"module 'tessella' has no attribute {name!r}")
    value = getattr(import_module(_WHERE[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return list(__all__)
