"""mdpsolver: nested lists of probabilities and columns; modified policy iteration in C++."""

import mdpsolver
import numpy as np

SOLVES_ONCE = True  # a second run would start from the result of the first


def build(model):
    p = model.build_pairs()
    start, data, to = p.rows.indptr.tolist(), p.rows.data.tolist(), p.rows.indices.tolist()
    probs, columns, rewards = ([[] for _ in range(p.n_states)] for _ in range(3))
    for i, (s, reward) in enumerate(zip(p.state.tolist(), p.reward.tolist(), strict=False)):
        probs[s].append(data[start[i] : start[i + 1]])
        columns[s].append(to[start[i] : start[i + 1]])
        rewards[s].append(reward)
    if len(p.reward) > len(p.state):  # a faulty model
        rewards.append(p.reward[len(p.state) :].tolist())
    solver = mdpsolver.model()
    solver.mdp(
        discount=0.99 if model.is_average else model.discount,
        rewards=rewards,
        tranMatProbs=probs,
        tranMatColumns=columns,
    )
    return solver, p, model.is_average


def solve(built, tol):
    solver, p, is_average = built
    criterion = "average" if is_average else "discounted"
    solver.solve(algorithm="mpi", tolerance=tol, criterion=criterion)
    value, policy = (
        np.asarray(solver.getValueVector()),
        p.find_actions(np.asarray(solver.getPolicy())),
    )
    return (p.compute_gain(value, policy) if is_average else value), policy
