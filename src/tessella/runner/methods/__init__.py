"""The methods of a study, by name: learners, baselines, references, and those of one's own."""

from tessella.runner.methods.registry import find_method, package_methods, register_method

__all__ = ["find_method", "package_methods", "register_method"]
