"""What a value means: one kind of criterion per file."""

from tessella.criteria.discounted import Discounted

__all__ = ["Discounted"]
