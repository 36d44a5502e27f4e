"""Exact solution: methods, the loop that most of them share, results with error bounds."""
