"""What a value means: one kind of criterion per file."""

from tessella.criteria.average import Average
from tessella.criteria.discounted import Discounted

__all__ = ["Average", "Discounted"]
