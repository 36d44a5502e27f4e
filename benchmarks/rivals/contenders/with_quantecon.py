"""QuantEcon: state-action pairs with sparse rows; modified policy iteration, as its docs advise."""

from quantecon.markov import DiscreteDP

MAX_ITERATIONS = 100_000  # None for the package's own limit


def build(model):
    if model.is_average:
        raise NotImplementedError("QuantEcon has only discounted rewards")
    p = model.build_pairs()
    return DiscreteDP(p.reward, p.rows, model.discount, p.state, p.action)


def solve(ddp, tol):
    result = ddp.solve(method="modified_policy_iteration", epsilon=tol, max_iter=MAX_ITERATIONS)
    return result.v, result.sigma
