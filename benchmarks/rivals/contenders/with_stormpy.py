"""Storm: the discount as a probability to end, rewards shifted above 0; sound value iteration.

V(s) = R(s) + lowest reward / (1 - discount),   R = expected total of (reward - lowest) to the end

An average is Storm's long-run average of the same shifted rewards, without an end.
"""

import numpy as np
import stormpy
from stormpy.datastructures import SparseMatrixBuilder
from stormpy.environments import MinMaxMethod
from stormpy.models import SparseMdp, SparseModelComponents, SparseRewardModel, StateLabeling


def build(model):
    p = model.build_pairs()
    lowest = float(p.reward.min())
    end, rewards = p.n_states, (p.reward - lowest).tolist()
    labels = StateLabeling(end if model.is_average else end + 1)
    labels.add_label("init")
    labels.add_label_to_state("init", 0)
    if not model.is_average:
        labels.add_label("end")
        labels.add_label_to_state("end", end)
        rewards.append(0.0)
    reward = {"paid": SparseRewardModel(optional_state_action_reward_vector=rewards)}
    parts = SparseModelComponents(build_matrix(p, model.discount), labels, reward)
    return SparseMdp(parts), p, model, lowest


def build_matrix(p, discount):
    """Storm's matrix; with a discount, it has an absorbing last state for the end."""
    builder = SparseMatrixBuilder(force_dimensions=False, has_custom_row_grouping=True)
    start, data, to = p.rows.indptr.tolist(), p.rows.data.tolist(), p.rows.indices.tolist()
    row, group, end = 0, -1, p.n_states
    for i, s in enumerate(p.state.tolist()):
        if s != group:
            builder.new_row_group(row)
            group = s
        for k in range(start[i], start[i + 1]):
            builder.add_next_value(row, to[k], discount * data[k])
        if discount != 1:
            builder.add_next_value(row, end, 1 - discount)
        row += 1
    if discount != 1:
        builder.new_row_group(row)
        builder.add_next_value(row, end, 1.0)
    return builder.build()


def solve(built, tol):
    mdp, p, model, lowest = built
    goal = "[LRA]" if model.is_average else '[F "end"]'
    (query,) = stormpy.parse_properties(f'R{{"paid"}}max=? {goal}')
    environment = stormpy.Environment()
    environment.solver().force_soundness = True
    method = environment.solver().min_max()
    method.method = MinMaxMethod.OPTIMISTIC_VALUE_ITERATION
    method.relative_termination_criterion = False
    method.precision = stormpy.Rational(tol)
    result = stormpy.model_checking(
        mdp, query, environment=environment, only_initial_states=False, extract_scheduler=True
    )
    scheduler = result.get_scheduler()
    choices = [scheduler.get_choice(s).get_deterministic_choice() for s in range(p.n_states)]
    value = np.array([result.get_value(s) for s in range(p.n_states)])
    shift = lowest if model.is_average else lowest / (1 - model.discount)
    return (value[:1] if model.is_average else value) + shift, p.find_actions(np.asarray(choices))
