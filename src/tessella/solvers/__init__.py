"""Exact solution: one method per file, one compiled loop, results that say how good they are."""
