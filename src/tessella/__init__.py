"""tessella: from a model of repeated decisions to a small rule that you can read and trust.

The way of the data::

    problem(name), Problem(...)      -> Problem         problem.build(**settings) -> MDP
    read_model("model.toml")         -> MDP             write_model(problem)  -> str
    benchmark, inventory, queue_admission, MDP.staged, MDP.from_...   -> MDP
    solve(mdp)                       -> Solution        evaluate(mdp, policy) -> Evaluation
    tradeoff(mdp, "cost", "fill_rate")                  -> Tradeoff
    tessellate(solution)             -> Tessellation    measure(tessellation) -> Geometry
    refine(build, cuts)              -> Refinement
    draw(solution, n, ...)           -> Sample          fit(learner, sample)  -> Policy
    train(baseline, mdp, updates)    -> Policy
    certify(solution, policy)        -> Certificate
    compress(solution, loss)         -> Rule            frontier(solution)    -> Frontier
    least_size(solution, loss, rule_class) -> ClassOutcome
    tune(solution, form, S=...)      -> Tuned           diff(mdp, a, b)       -> Difference
    scaling(build, scales, loss)     -> Scaling
    export(rule, "reorder.c")        -> ExportedFile
    run_study(Study(problems, methods))                 -> StudyResults

Names are loaded when first used, so importing tessella is quick.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

__version__ = "0.1.0"

# Module to the public names that it holds; `scripts/public_stub.py` makes the type stub of it.
_HOME = {
    "baselines": "DoubleQ FittedQ TabularQ train train_batch",
    "certificates.certificate": "Certificate",
    "certificates.certify": "certify",
    "certificates.loss": "Estimate estimate Loss loss",
    "criteria": "Average Discounted FiniteHorizon Total",
    "errors": (
        "ArgumentError FileError MissingExtra ModelError NotConverged PolicyError StudyError "
        "TessellaError"
    ),
    "grid": "StateGrid",
    "learn": (
        "ByOccupancy LinearBoundary LocalBoundary MarginBoundary NeuralBoundary Sample "
        "Stratified Uniform draw fit fit_batch"
    ),
    "mdp.as_policy": "as_policy",
    "mdp.dynamics": "TileSizes",
    "mdp.model": "MDP",
    "mdp.measures": "AtLeast AtMost MeasureValue",
    "mdp.policy": "Policy",
    "mdp.simulate": "Paths simulate",
    "mdp.stages": "Clock Decide Event Jump Move Noise Pay Shift truncated_poisson",
    "modelfiles.toml_document": "ModelFileError",
    "modelfiles.named_problem": "write_model",
    "modelfiles.read_model": "read_model",
    "problems.admission": "queue_admission",
    "problems.inventory": "inventory",
    "problems.problem": "Choice Integer Integers Number Numbers Problem Theory",
    "problems.registry": "BENCHMARKS all_problems benchmark problem register",
    "rules.trees": "AxisTree LinearTree",
    "rules.compress": "compress frontier least_size",
    "rules.diff": "Difference diff",
    "rules.export.data_files": "read_dtcontrol",
    "rules.export.export": "export",
    "rules.linear_cuts": "LinearCuts Staircase",
    "rules.monotone_surface": "MonotoneSurface",
    "rules.order_up_to": "OrderUpTo",
    "rules.rule": "Frontier Rule",
    "rules.rule_class": "Costs Candidate RuleClass",
    "rules.scaling": "Scaling scaling",
    "rules.small_network": "SmallNetwork",
    "rules.table_rules": "OneAction RunLength WithExceptions",
    "rules.tune": "Tuned tune",
    "runner.methods.method": "BaselineMethod FunctionMethod LearnerMethod",
    "runner.run_study": "StudyResults run_study",
    "runner.study": "Measure Study",
    "solvers.backward_induction": "BackwardInduction",
    "solvers.blocks": "InPlace",
    "solvers.constraints.constrained_solution": "ConstrainedSolution",
    "solvers.constraints.tradeoff": "Tradeoff tradeoff",
    "solvers.execution_plan": "ExecutionPlan",
    "solvers.linear_programming": "LinearProgramming",
    "solvers.method": "Method",
    "solvers.mixed_precision": "MixedPrecision",
    "solvers.plan": "CostEstimate plan",
    "solvers.policy_evaluation": "Evaluation Occupancy evaluate occupancy",
    "solvers.policy_iteration": (
        "InexactPolicyIteration ModifiedPolicyIteration PolicyIteration ValueIteration"
    ),
    "solvers.result": "Checkpoint",
    "solvers.solution": "Solution",
    "solvers.solve": "solve",
    "solvers.thresholds": "Thresholds",
    "support.progress": "open_progress",
    "tessellation": (
        "Comparison Geometry Structure Tessellation compare examine measure switching_curves "
        "tessellate"
    ),
    "tessellation.refine": "Refinement refine",
}
_WHERE = {name: home for home, names in _HOME.items() for name in names.split()}

__all__ = sorted([*_WHERE, "__version__"])  # pyright: ignore[reportUnsupportedDunderAll]


def __getattr__(name: str) -> Any:
    if name not in _WHERE:
        raise AttributeError(f"module 'tessella' has no attribute {name!r}")
    value = getattr(import_module(f"tessella.{_WHERE[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return list(__all__)
