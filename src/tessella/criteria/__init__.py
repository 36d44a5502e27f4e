"""What a value means: one kind of criterion per file."""

from tessella.criteria.average import Average
from tessella.criteria.discounted import Discounted
from tessella.criteria.finite_horizon import FiniteHorizon
from tessella.criteria.total import Total

__all__ = ["Average", "Discounted", "FiniteHorizon", "Total"]
