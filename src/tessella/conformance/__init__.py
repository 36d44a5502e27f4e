"""Checks of parts of one's own: do they keep what the package relies on?

Each check runs on one object, returns nothing when all is well, and raises an AssertionError that
names the first requirement that is broken, and where.
"""

from tessella.conformance.method import check_method
from tessella.conformance.model import check_dynamics, check_policy
from tessella.conformance.problem import check_problem

__all__ = ["check_dynamics", "check_method", "check_policy", "check_problem"]
