"""The methods of a study, by name: the paper's seven, and honest references apart from them."""

from tessella.study.methods.registry import UnknownMethodError, by_name, known

__all__ = ["UnknownMethodError", "by_name", "known"]
