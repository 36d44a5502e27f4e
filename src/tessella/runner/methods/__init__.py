"""The methods of a study, by name: learners, baselines, references, and those of one's own."""

from tessella.runner.methods.registry import by_name, known, register_method

__all__ = ["by_name", "known", "register_method"]
