"""Exact solution: one method per file, one compiled loop, results that say how good they are."""

from tessella.solve.evaluate import Evaluation, evaluate
from tessella.solve.linear_programming import LinearProgramming
from tessella.solve.modified_policy_iteration import ModifiedPolicyIteration
from tessella.solve.occupancy import Occupancy, occupancy
from tessella.solve.policy_iteration import InexactPolicyIteration, PolicyIteration
from tessella.solve.solution import History, Solution
from tessella.solve.solve import Method, solve
from tessella.solve.value_iteration import ValueIteration

__all__ = [
    "Evaluation",
    "History",
    "InexactPolicyIteration",
    "LinearProgramming",
    "Method",
    "ModifiedPolicyIteration",
    "Occupancy",
    "PolicyIteration",
    "Solution",
    "ValueIteration",
    "evaluate",
    "occupancy",
    "solve",
]
