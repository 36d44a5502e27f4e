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
from pathlib import Path
from typing import Any

__version__ = "0.1.0"

# Public name to the module that holds it, as the type stub says.
_STUB_LINES = Path(__file__).with_suffix(".pyi").read_text(encoding="utf-8").splitlines()
_IMPORTS = [line.split() for line in _STUB_LINES if line.startswith("from ")]
_HOME = {name: module for _, module, _, name, *_ in _IMPORTS}

__all__ = sorted([*_HOME, "__version__"])  # pyright: ignore[reportUnsupportedDunderAll]


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'tessella' has no attribute {name!r}")
    value = getattr(import_module(_HOME[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return list(__all__)
