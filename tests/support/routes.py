"""The two routes of a small staged model: as rows by NumPy, or through compiled stages.

Its own plan takes rows; large models go through stages, and what holds of these is tested on small
ones whose plan is asked for stages.
"""

from __future__ import annotations

import tessella as ts
from tessella.solvers.execution_plan import make_plan

ROUTES = "rows", "stages"


def plan_by(
    mdp: ts.MDP, representation: str, method: ts.Method | None = None, **requests
) -> ts.ExecutionPlan:
    """The plan of a model by this representation; a table has rows on either route."""
    if mdp.dynamics.is_table:
        representation = "rows"
    return make_plan(mdp, method, representation=representation, **requests)
