"""mdpsolver: nested lists of probabilities and columns; modified policy iteration in C++."""

import mdpsolver
import numpy as np

ONCE = True  # a second run would begin where the first ended


def build(model):
    p = model.pairs()
    start, data, to = p.rows.indptr.tolist(), p.rows.data.tolist(), p.rows.indices.tolist()
    probs = [[] for _ in range(p.n_states)]
    columns = [[] for _ in range(p.n_states)]
    for i, s in enumerate(p.state.tolist()):
        probs[s].append(data[start[i] : start[i + 1]])
        columns[s].append(to[start[i] : start[i + 1]])
    made = mdpsolver.model()
    made.mdp(
        discount=model.discount,
        rewards=p.reward_table().tolist(),
        tranMatProbs=probs,
        tranMatColumns=columns,
    )
    return made


def solve(made, tol):
    made.solve(algorithm="mpi", tolerance=tol)
    return np.asarray(made.getValueVector()), np.asarray(made.getPolicy())
