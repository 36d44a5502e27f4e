"""One file for each contender: ``build(model)`` -> what it solves, ``solve(built, tol)`` -> answer.

An answer is (value, policy), both over states. Files import their own package only when used.
"""
