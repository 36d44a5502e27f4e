"""QuantEcon by policy iteration, which solves one sparse system for each policy."""

from contenders.with_quantecon import build as build


def solve(ddp, tol):
    result = ddp.solve(method="policy_iteration")
    return result.v, result.sigma
