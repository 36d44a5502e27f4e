"""tessella: from a model of repeated decisions to a small rule that you can read and trust.

The way of the data::

    problem(name), Problem(...)      -> Problem         problem.build(**settings) -> MDP
    read_model("model.toml")         -> MDP             write_model(problem)  -> str
    benchmark, inventory, queue_admission, MDP.staged, MDP.from_...   -> MDP
    solve(mdp)                       -> Solution        evaluate(mdp, policy) -> Evaluation
    tessellate(solution)             -> Tessellation    measure(tessellation) -> Geometry
    refine(build, cuts)              -> Refinement
    draw(solution, n, ...)           -> Sample          fit(learner, sample)  -> Policy
    train(baseline, mdp, updates)    -> Policy
    certify(solution, policy)        -> Certificate, GainCertificate, TotalCertificate
    certify_in_slabs(solution, policy)                  -> CertificateSummary
    compress(solution, loss)         -> Rule            frontier(solution)    -> Frontier
    least_size(solution, loss, kind) -> Outcome
    tune(solution, form, S=...)      -> Tuned           diff(mdp, a, b)       -> Difference
    scaling(build, scales, loss)     -> Scaling
    export(rule, "reorder.c")        -> Exported
    run_study(Study(problems, methods))                 -> StudyResults

Names are loaded when first used, so importing tessella is quick.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

_HOME = {
    "tessella.errors": (
        "ArgumentError",
        "FileError",
        "MissingExtra",
        "ModelError",
        "NotConverged",
        "PolicyError",
        "StudyError",
        "TessellaError",
    ),
    "tessella.grid": ("StateGrid",),
    "tessella.mdp.model": ("MDP",),
    "tessella.mdp.policy": ("Policy",),
    "tessella.mdp.simulate": ("Paths", "simulate"),
    "tessella.mdp.stages": (
        "Clock",
        "Decide",
        "Event",
        "Jump",
        "Move",
        "Noise",
        "Pay",
        "Shift",
        "truncated_poisson",
    ),
    "tessella.modelfiles.mistakes": ("ModelFileError",),
    "tessella.modelfiles.read_model": ("read_model",),
    "tessella.modelfiles.write_model": ("write_model",),
    "tessella.problems.benchmarks": ("BENCHMARKS", "benchmark"),
    "tessella.problems.inventory": ("inventory",),
    "tessella.problems.parameter": ("Choice", "Integer", "Integers", "Number", "Numbers"),
    "tessella.problems.problem": ("Problem", "Theory"),
    "tessella.problems.queue_admission": ("queue_admission",),
    "tessella.problems.registry": ("all_problems", "problem", "register"),
    "tessella.solvers.backward_induction": ("BackwardInduction",),
    "tessella.solvers.checkpoint": ("Checkpoint",),
    "tessella.solvers.evaluate": ("Evaluation", "evaluate"),
    "tessella.solvers.in_place": ("InPlace",),
    "tessella.solvers.linear_programming": ("LinearProgramming",),
    "tessella.solvers.method": ("Method",),
    "tessella.solvers.mixed_precision": ("MixedPrecision",),
    "tessella.solvers.modified_policy_iteration": ("ModifiedPolicyIteration",),
    "tessella.solvers.occupancy": ("Occupancy", "occupancy"),
    "tessella.solvers.plan": ("Plan", "plan"),
    "tessella.solvers.policy_iteration": ("InexactPolicyIteration", "PolicyIteration"),
    "tessella.solvers.solution": ("Solution",),
    "tessella.solvers.solve": ("solve",),
    "tessella.solvers.value_iteration": ("ValueIteration",),
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
    "tessella.certificates.certificate": ("Certificate",),
    "tessella.certificates.certify": ("certify",),
    "tessella.certificates.estimate": ("Estimate", "estimate"),
    "tessella.certificates.gain_certificate": ("GainCertificate",),
    "tessella.certificates.in_slabs": ("CertificateSummary", "certify_in_slabs"),
    "tessella.certificates.loss": ("Loss", "loss"),
    "tessella.certificates.total_certificate": ("TotalCertificate",),
    "tessella.criteria": ("Average", "Discounted", "FiniteHorizon", "Total"),
    "tessella.mdp.as_policy": ("as_policy",),
    "tessella.rules.axis_tree": ("AxisTree",),
    "tessella.rules.compress": ("compress", "frontier", "least_size"),
    "tessella.rules.export.dtcontrol": ("read_dtcontrol",),
    "tessella.rules.export.export": ("export",),
    "tessella.rules.one_action": ("OneAction",),
    "tessella.rules.order_up_to": ("OrderUpTo",),
    "tessella.rules.diff": ("Difference", "diff"),
    "tessella.rules.frontier": ("Frontier",),
    "tessella.rules.linear_cuts": ("LinearCuts",),
    "tessella.rules.linear_tree": ("LinearTree",),
    "tessella.rules.rule": ("Rule",),
    "tessella.rules.rule_class": ("Costs", "Fitted", "RuleClass"),
    "tessella.rules.run_length": ("RunLength",),
    "tessella.rules.scaling": ("Scaling", "scaling"),
    "tessella.rules.monotone_surface": ("MonotoneSurface",),
    "tessella.rules.small_network": ("SmallNetwork",),
    "tessella.rules.staircase": ("Staircase",),
    "tessella.rules.tune": ("Tuned", "tune"),
    "tessella.rules.with_exceptions": ("WithExceptions",),
    "tessella.runner.measure": ("Measure",),
    "tessella.runner.methods.custom": ("BaselineMethod", "FunctionMethod", "LearnerMethod"),
    "tessella.runner.results": ("StudyResults",),
    "tessella.runner.run_study": ("run_study",),
    "tessella.runner.study": ("Study",),
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
    "tessella.tessellation.refine": ("Refinement", "refine"),
}
_WHERE = {name: home for home, names in _HOME.items() for name in names}

__all__ = sorted([*_WHERE, "__version__"])  # pyright: ignore[reportUnsupportedDunderAll]

if TYPE_CHECKING:
    from tessella.baselines import DoubleQ, FittedQ, TabularQ, train, train_batch
    from tessella.certificates.certificate import Certificate
    from tessella.certificates.certify import certify
    from tessella.certificates.estimate import Estimate, estimate
    from tessella.certificates.gain_certificate import GainCertificate
    from tessella.certificates.in_slabs import CertificateSummary, certify_in_slabs
    from tessella.certificates.loss import Loss, loss
    from tessella.certificates.total_certificate import TotalCertificate
    from tessella.criteria import Average, Discounted, FiniteHorizon, Total
    from tessella.errors import (
        ArgumentError,
        FileError,
        MissingExtra,
        ModelError,
        NotConverged,
        PolicyError,
        StudyError,
        TessellaError,
    )
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
    from tessella.mdp.as_policy import as_policy
    from tessella.mdp.model import MDP
    from tessella.mdp.policy import Policy
    from tessella.mdp.simulate import Paths, simulate
    from tessella.mdp.stages import (
        Clock,
        Decide,
        Event,
        Jump,
        Move,
        Noise,
        Pay,
        Shift,
        truncated_poisson,
    )
    from tessella.modelfiles.mistakes import ModelFileError
    from tessella.modelfiles.read_model import read_model
    from tessella.modelfiles.write_model import write_model
    from tessella.problems.benchmarks import BENCHMARKS, benchmark
    from tessella.problems.inventory import inventory
    from tessella.problems.parameter import Choice, Integer, Integers, Number, Numbers
    from tessella.problems.problem import Problem, Theory
    from tessella.problems.queue_admission import queue_admission
    from tessella.problems.registry import all_problems, problem, register
    from tessella.rules.axis_tree import AxisTree
    from tessella.rules.compress import compress, frontier, least_size
    from tessella.rules.diff import Difference, diff
    from tessella.rules.export.dtcontrol import read_dtcontrol
    from tessella.rules.export.export import export
    from tessella.rules.frontier import Frontier
    from tessella.rules.linear_cuts import LinearCuts
    from tessella.rules.linear_tree import LinearTree
    from tessella.rules.monotone_surface import MonotoneSurface
    from tessella.rules.one_action import OneAction
    from tessella.rules.order_up_to import OrderUpTo
    from tessella.rules.rule import Rule
    from tessella.rules.rule_class import Costs, Fitted, RuleClass
    from tessella.rules.run_length import RunLength
    from tessella.rules.scaling import Scaling, scaling
    from tessella.rules.small_network import SmallNetwork
    from tessella.rules.staircase import Staircase
    from tessella.rules.tune import Tuned, tune
    from tessella.rules.with_exceptions import WithExceptions
    from tessella.runner.measure import Measure
    from tessella.runner.methods.custom import BaselineMethod, FunctionMethod, LearnerMethod
    from tessella.runner.results import StudyResults
    from tessella.runner.run_study import run_study
    from tessella.runner.study import Study
    from tessella.solvers.backward_induction import BackwardInduction
    from tessella.solvers.checkpoint import Checkpoint
    from tessella.solvers.evaluate import Evaluation, evaluate
    from tessella.solvers.in_place import InPlace
    from tessella.solvers.linear_programming import LinearProgramming
    from tessella.solvers.method import Method
    from tessella.solvers.mixed_precision import MixedPrecision
    from tessella.solvers.modified_policy_iteration import ModifiedPolicyIteration
    from tessella.solvers.occupancy import Occupancy, occupancy
    from tessella.solvers.plan import Plan, plan
    from tessella.solvers.policy_iteration import InexactPolicyIteration, PolicyIteration
    from tessella.solvers.solution import Solution
    from tessella.solvers.solve import solve
    from tessella.solvers.value_iteration import ValueIteration
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
    from tessella.tessellation.refine import Refinement, refine


def __getattr__(name: str) -> Any:
    if name not in _WHERE:
        raise AttributeError(f"module 'tessella' has no attribute {name!r}")
    value = getattr(import_module(_WHERE[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return list(__all__)
