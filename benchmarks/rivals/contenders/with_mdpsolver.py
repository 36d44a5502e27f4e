"""mdpsolver: nested lists of probabilities and columns; modified policy iteration in C++."""

import mdpsolver
import numpy as np

ONCE = True  # a second run would begin where the first ended


def build(model):
    p = model.pairs()
    start, data, to = p.rows.indptr.tolist(), p.rows.data.tolist(), p.rows.indices.tolist()
    probs, columns, rewards = ([[] for _ in range(p.n_states)] for _ in range(3))
    for i, (s, paid) in enumerate(zip(p.state.tolist(), p.reward.tolist(), strict=False)):
        probs[s].append(data[start[i] : start[i + 1]])
        columns[s].append(to[start[i] : start[i + 1]])
        rewards[s].append(paid)
    if len(p.reward) > len(p.state):  # a faulty model
        rewards.append(p.reward[len(p.state) :].tolist())
    made = mdpsolver.model()
    made.mdp(
        discount=0.99 if model.average else model.discount,
        rewards=rewards,
        tranMatProbs=probs,
        tranMatColumns=columns,
    )
    return made, p, model.average


def solve(built, tol):
    made, p, average = built
    criterion = "average" if average else "discounted"
    made.solve(algorithm="mpi", tolerance=tol, criterion=criterion)
    value, policy = np.asarray(made.getValueVector()), p.taken(np.asarray(made.getPolicy()))
    return (p.gain(value, policy) if average else value), policy
