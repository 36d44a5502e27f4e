"""QuantEcon: state-action pairs with sparse rows; modified policy iteration, as its docs advise."""

from quantecon.markov import DiscreteDP

CAP = 100_000  # rounds; None for its own limit


def build(model):
    if model.average:
        raise NotImplementedError("QuantEcon knows discounted rewards alone")
    p = model.pairs()
    return DiscreteDP(p.reward, p.rows, model.discount, p.state, p.action)


def solve(ddp, tol):
    found = ddp.solve(method="modified_policy_iteration", epsilon=tol, max_iter=CAP)
    return found.v, found.sigma
