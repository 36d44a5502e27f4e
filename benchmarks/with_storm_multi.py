"""One multi-objective query of Storm: most reward with a discounted count bounded from above.

    python benchmarks/with_storm_multi.py MODEL.npz

The discount is a chance to end, and rewards are shifted to be positive; the start is uniform.
"""

import json
import sys

import numpy as np
import stormpy
from stormpy.datastructures import SparseMatrixBuilder
from stormpy.models import SparseMdp, SparseModelComponents, SparseRewardModel, StateLabeling


def build(model):
    n = int(model["shape"][1])
    discount = float(model["discount"])
    rows = SparseMatrixBuilder(force_dimensions=False, has_custom_row_grouping=True)
    row, group, start, end = 0, -1, n, n + 1
    for i, s in enumerate(model["state"].tolist()):
        if s != group:
            rows.new_row_group(row)
            group = s
        for k in range(int(model["indptr"][i]), int(model["indptr"][i + 1])):
            rows.add_next_value(row, int(model["indices"][k]), discount * float(model["data"][k]))
        rows.add_next_value(row, end, 1 - discount)
        row += 1
    rows.new_row_group(row)
    for s in range(n):
        rows.add_next_value(row, s, 1 / n)
    rows.new_row_group(row + 1)
    rows.add_next_value(row + 1, end, 1.0)
    labels = StateLabeling(n + 2)
    for name, state in (("init", start), ("end", end)):
        labels.add_label(name)
        labels.add_label_to_state(name, state)
    lowest = float(model["reward"].min())
    amounts = {"paid": model["reward"] - lowest, "counted": model["count"]}
    rewards = {
        name: SparseRewardModel(optional_state_action_reward_vector=[*amount.tolist(), 0.0, 0.0])
        for name, amount in amounts.items()
    }
    parts = SparseModelComponents(rows.build(), labels, rewards)
    return SparseMdp(parts), start, lowest / (1 - discount)


def main():
    model = np.load(sys.argv[1])
    mdp, start, shift = build(model)
    level = float(model["level"])
    (query,) = stormpy.parse_properties(
        f'multi(R{{"paid"}}max=? [F "end"], R{{"counted"}}<={level!r} [F "end"])'
    )
    result = stormpy.model_checking(mdp, query, only_initial_states=True)
    print(json.dumps(result.get_value(start) + shift))


if __name__ == "__main__":
    main()
