"""Certificates: what a policy loses against the optimum, exactly, and why.

Nothing is imported here, so that running the checker loads nothing of what it checks.
"""
