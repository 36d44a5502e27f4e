"""One module for each contender, with two functions.

``build(model)`` returns what the package solves; ``solve(built, tol)`` returns (value, policy),
both over states. Each module imports its package, so a process loads only its own contender.
"""
