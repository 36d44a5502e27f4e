"""Storm: the discount as a chance to end, rewards shifted to be positive; sound value iteration.

V(s) = R(s) + lowest reward / (1 - discount),   R = expected total of (reward - lowest) to the end

An average is its long-run average of the same shifted rewards, and there is no end.
"""

import numpy as np
import stormpy
from stormpy.datastructures import SparseMatrixBuilder
from stormpy.environments import MinMaxMethod
from stormpy.models import SparseMdp, SparseModelComponents, SparseRewardModel, StateLabeling


def build(model):
    p = model.pairs()
    lowest = float(p.reward.min())
    end, paid = p.n_states, (p.reward - lowest).tolist()
    labels = StateLabeling(end if model.average else end + 1)
    labels.add_label("init")
    labels.add_label_to_state("init", 0)
    if not model.average:
        labels.add_label("end")
        labels.add_label_to_state("end", end)
        paid.append(0.0)
    reward = {"paid": SparseRewardModel(optional_state_action_reward_vector=paid)}
    parts = SparseModelComponents(rows(p, model.discount), labels, reward)
    return SparseMdp(parts), p, model, lowest


def rows(p, discount):
    """The matrix of Storm, with a state at which everything ends where there is a discount."""
    made = SparseMatrixBuilder(force_dimensions=False, has_custom_row_grouping=True)
    start, data, to = p.rows.indptr.tolist(), p.rows.data.tolist(), p.rows.indices.tolist()
    row, group, end = 0, -1, p.n_states
    for i, s in enumerate(p.state.tolist()):
        if s != group:
            made.new_row_group(row)
            group = s
        for k in range(start[i], start[i + 1]):
            made.add_next_value(row, to[k], discount * data[k])
        if discount != 1:
            made.add_next_value(row, end, 1 - discount)
        row += 1
    if discount != 1:
        made.new_row_group(row)
        made.add_next_value(row, end, 1.0)
    return made.build()


def solve(built, tol):
    mdp, p, model, lowest = built
    goal = "[LRA]" if model.average else '[F "end"]'
    (wanted,) = stormpy.parse_properties(f'R{{"paid"}}max=? {goal}')
    task = stormpy.Environment()
    task.solver().force_soundness = True
    inner = task.solver().min_max()
    inner.method = MinMaxMethod.OPTIMISTIC_VALUE_ITERATION
    inner.relative_termination_criterion = False
    inner.precision = stormpy.Rational(tol)
    found = stormpy.model_checking(
        mdp, wanted, environment=task, only_initial_states=False, extract_scheduler=True
    )
    rule = found.get_scheduler()
    taken = [rule.get_choice(s).get_deterministic_choice() for s in range(p.n_states)]
    value = np.array([found.get_value(s) for s in range(p.n_states)])
    shift = lowest if model.average else lowest / (1 - model.discount)
    return (value[:1] if model.average else value) + shift, p.taken(np.asarray(taken))
