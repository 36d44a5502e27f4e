"""Storm: the discount as a chance to end, rewards shifted to be positive; sound value iteration.

V(s) = R(s) + lowest reward / (1 - discount),   R = expected total of (reward - lowest) to the end
"""

import numpy as np
import stormpy
from stormpy.datastructures import SparseMatrixBuilder
from stormpy.environments import MinMaxMethod
from stormpy.models import SparseMdp, SparseModelComponents, SparseRewardModel, StateLabeling


def build(model):
    p = model.pairs()
    lowest = float(p.reward.min())
    end = p.n_states
    made = SparseMatrixBuilder(force_dimensions=False, has_custom_row_grouping=True)
    start, data, to = p.rows.indptr.tolist(), p.rows.data.tolist(), p.rows.indices.tolist()
    row, group = 0, -1
    for i, s in enumerate(p.state.tolist()):
        if s != group:
            made.new_row_group(row)
            group = s
        for k in range(start[i], start[i + 1]):
            made.add_next_value(row, to[k], model.discount * data[k])
        made.add_next_value(row, end, 1 - model.discount)
        row += 1
    made.new_row_group(row)
    made.add_next_value(row, end, 1.0)
    labels = StateLabeling(end + 1)
    labels.add_label("init")
    labels.add_label_to_state("init", 0)
    labels.add_label("end")
    labels.add_label_to_state("end", end)
    paid = [*(p.reward - lowest).tolist(), 0.0]
    reward = {"paid": SparseRewardModel(optional_state_action_reward_vector=paid)}
    parts = SparseModelComponents(made.build(), labels, reward)
    return SparseMdp(parts), lowest / (1 - model.discount)


def solve(built, tol):
    mdp, shift = built
    (wanted,) = stormpy.parse_properties('R{"paid"}max=? [F "end"]')
    task = stormpy.Environment()
    task.solver().force_soundness = True
    inner = task.solver().min_max()
    inner.method = MinMaxMethod.OPTIMISTIC_VALUE_ITERATION
    inner.relative_termination_criterion = False
    inner.precision = stormpy.Rational(tol)
    found = stormpy.model_checking(
        mdp, wanted, environment=task, only_initial_states=False, extract_scheduler=True
    )
    value = np.array([found.get_value(s) for s in range(mdp.nr_states - 1)]) + shift
    rule = found.get_scheduler()
    taken = [rule.get_choice(s).get_deterministic_choice() for s in range(len(value))]
    return value, np.asarray(taken)
