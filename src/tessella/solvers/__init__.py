"""Exact solution: one method per file, one compiled loop, results that say how good they are."""

from tessella.solvers.backward_induction import BackwardInduction
from tessella.solvers.evaluate import Evaluation, evaluate
from tessella.solvers.linear_programming import LinearProgramming
from tessella.solvers.method import Method
from tessella.solvers.modified_policy_iteration import ModifiedPolicyIteration
from tessella.solvers.occupancy import Occupancy, occupancy
from tessella.solvers.policy_iteration import InexactPolicyIteration, PolicyIteration
from tessella.solvers.result import History, Result
from tessella.solvers.solution import Solution
from tessella.solvers.solve import solve
from tessella.solvers.value_iteration import ValueIteration

__all__ = [
    "BackwardInduction",
    "Evaluation",
    "History",
    "InexactPolicyIteration",
    "LinearProgramming",
    "Method",
    "ModifiedPolicyIteration",
    "Occupancy",
    "PolicyIteration",
    "Result",
    "Solution",
    "ValueIteration",
    "evaluate",
    "occupancy",
    "solve",
]
