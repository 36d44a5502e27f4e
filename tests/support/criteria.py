"""Small random models under each criterion, and their optima in rational arithmetic.

Probabilities are eighths, so that floats hold them exactly and nothing but the solver rounds.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

import numpy as np

import tessella as ts
from support.models import eliminate
from tessella.criteria.criterion import Criterion

Row = list[Fraction]
N_STATES, N_ACTIONS = 5, 3  # states and actions


def draw_eighths(rng: np.random.Generator, shape: tuple[int, ...], n: int) -> np.ndarray:
    """(*shape, n) probabilities, each a multiple of 1/8."""
    flat = rng.multinomial(8, rng.dirichlet(np.ones(n)), size=int(np.prod(shape)))
    return flat.reshape(*shape, n) / 8


def build_stage_model(rows: np.ndarray, reward: np.ndarray, criterion: Criterion) -> ts.MDP:
    """(K, N, N) rows as a stage, so that all such models share what is compiled."""
    n, k = reward.shape
    jump = ts.Jump(
        ts.Noise("to", range(n), lambda x, action: rows[action, x][..., 0, :]),
        to=lambda to: {"x": to},
        pays=lambda x, action: reward[x, action],
    )
    return ts.MDP.staged({"x": range(n)}, range(k), criterion, [jump])


def build_unichain(seed: int) -> ts.MDP:
    """Every state may be followed by state 0, so every policy has one recurrent class."""
    rng = np.random.default_rng(seed)
    rows = draw_eighths(rng, (N_ACTIONS, N_STATES), N_STATES) / 2
    rows[..., 0] += 0.5 if seed % 3 else 0.25
    if not seed % 3:
        rows[..., -1] += 0.25
    return build_stage_model(
        rows, rng.integers(-8, 9, size=(N_STATES, N_ACTIONS)).astype(float), ts.Average()
    )


def build_ending(seed: int) -> ts.MDP:
    """State 4 is the end. Every period costs, or every action may end: then rewards are free."""
    rng = np.random.default_rng(seed)
    rows = draw_eighths(rng, (N_ACTIONS, N_STATES), N_STATES)
    reward = rng.integers(-8, 0, size=(N_STATES, N_ACTIONS)).astype(float)
    if seed % 2:  # no action goes on for sure
        rows = rows / 2
        rows[..., -1] += 0.5
        reward = rng.integers(-8, 9, size=(N_STATES, N_ACTIONS)).astype(float)
    else:  # one action that ends in the end, wherever it starts
        rows[0, :, -1] += np.where(rows[0, :, -1] == 0, rows[0].max(axis=-1), 0)
        largest = rows[0].argmax(axis=-1)
        short = rows[0].sum(axis=-1) - 1
        rows[0, np.arange(N_STATES), largest] -= short
        rows[0, :, -1] += 1 - rows[0].sum(axis=-1)
    rows[:, -1], reward[-1] = np.eye(N_STATES)[-1], 0.0
    return build_stage_model(rows, reward, ts.Total())


def build_time_dependent(seed: int) -> ts.MDP:
    """Six states over four periods whose law, rewards and feasible actions depend on time."""
    rng = np.random.default_rng(seed)
    law = draw_eighths(rng, (4, 6, N_ACTIONS), 6)
    reward = rng.integers(-8, 9, size=(4, 6, N_ACTIONS)).astype(float)
    feasible = rng.random((4, 6, N_ACTIONS)) < 0.8
    feasible[..., 0] |= ~feasible.any(axis=-1)
    final = rng.integers(-8, 9, size=6).astype(float)

    def make_lookup(array):
        return lambda time, x, action: array[time, x, action]

    jump = ts.Jump(
        ts.Noise(
            "to", range(6), lambda time, x, action: make_lookup(law)(time, x, action)[..., 0, :]
        ),
        to=lambda to: {"x": to},
        pays=make_lookup(reward),
    )
    horizon = ts.FiniteHorizon(4, float(rng.choice([0.5, 0.75, 1.0])), final=final)
    return ts.MDP.staged(
        {"x": range(6)},
        range(N_ACTIONS),
        horizon,
        [jump],
        feasible=make_lookup(feasible),
    )


def read_fractions(mdp: ts.MDP) -> tuple[list[list[Row]], list[Row]]:
    """(rows, rewards) by state and action; a row is empty where the action is infeasible."""
    dense = mdp.to_arrays("SAS")
    exact = np.vectorize(Fraction, otypes=[object])
    rows = exact(dense.transition).tolist()
    rewards = exact(np.where(dense.feasible, dense.reward, 0.0)).tolist()
    for s, a in zip(*np.nonzero(~dense.feasible), strict=True):
        rows[s][a] = []
    return rows, rewards


def solve_linear_system(rows: list[Row], right: Sequence[Fraction]) -> Row:
    """x with rows x = right, by elimination."""
    system = [[*row, b] for row, b in zip(rows, right, strict=True)]
    for i in range(len(system)):
        pivot = next(r for r in range(i, len(system)) if system[r][i] != 0)
        system[i], system[pivot] = system[pivot], system[i]
        eliminate(system, i)
    return [row[-1] for row in system]


def compute_action_values(mdp: ts.MDP, value: Row) -> list[list[Fraction | None]]:
    """By state and action; None where infeasible."""
    rows, paid = read_fractions(mdp)
    discount = Fraction(mdp.discount)

    def q(s: int, a: int) -> Fraction | None:
        if not rows[s][a]:
            return None
        return paid[s][a] + discount * sum(p * v for p, v in zip(rows[s][a], value, strict=True))

    return [[q(s, a) for a in range(mdp.n_actions)] for s in range(mdp.n_states)]


def compute_policy_value(mdp: ts.MDP, table: np.ndarray) -> Row:
    """The exact value of a policy; states that end a total have 0.

    Of an average they are relative, with the gain where the 0 of the first state would stand.
    """
    rows, paid = read_fractions(mdp)
    actions = [int(a) for a in np.asarray(table).ravel()]
    system, right = [], []
    for s, a in enumerate(actions):
        is_end = rows[s][a][s] == 1 and isinstance(mdp.criterion, ts.Total)
        row = [-Fraction(mdp.discount) * p for p in rows[s][a]]
        row[s] = Fraction(1) if is_end else row[s] + 1
        if isinstance(mdp.criterion, ts.Average):
            row[0] = Fraction(1)
        system.append(row)
        right.append(paid[s][a])
    return solve_linear_system(system, right)


def compute_optimum(mdp: ts.MDP, table: np.ndarray) -> Row:
    """The exact optimum, by policy iteration from a policy that is nearly one."""
    actions = np.asarray(table).ravel().copy()
    is_average = isinstance(mdp.criterion, ts.Average)
    while True:
        value = compute_policy_value(mdp, actions)
        gain, relative = (value[0], [Fraction(0), *value[1:]]) if is_average else (0, value)
        changed = False
        for s, values in enumerate(compute_action_values(mdp, relative)):
            best = max((v, -a) for a, v in enumerate(values) if v is not None)
            if best[0] > relative[s] + gain:
                actions[s], changed = -best[1], True
        if not changed:
            return value


def find_contradictions(mdp: ts.MDP, rng: np.random.Generator) -> list[str]:
    """What a solution and an evaluation say that is not so, in words."""
    solution = ts.solve(mdp)
    exact = compute_optimum(mdp, solution.policy.table)
    messages = _find_errors("the optimum", solution, exact)
    relative = exact if solution.gain is None else [Fraction(0), *exact[1:]]
    for s, values in enumerate(compute_action_values(mdp, relative)):
        best = max(v for v in values if v is not None)
        if solution.decided.flat[s] and values[solution.policy.table.flat[s]] != best:
            messages.append(f"state {s} is called decided and is not")
    scale = max(1.0, float(max(map(abs, exact))))
    if not max(solution.error_bound, solution.value_error) <= 1e-9 * scale:
        messages.append(f"the bounds {solution.error_bound}, {solution.value_error} are not narrow")
    feasible = np.where(mdp.feasible_mask, rng.random((mdp.n_states, mdp.n_actions)), -1)
    table = feasible.argmax(axis=1)
    try:
        evaluation = ts.evaluate(mdp, table.reshape(mdp.grid.shape))
    except ts.ModelError:  # it may never end
        return messages
    return messages + _find_errors("a policy", evaluation, compute_policy_value(mdp, table))


def _find_errors(what: str, result: ts.Solution | ts.Evaluation, exact: Row) -> list[str]:
    """What lies further off than was said; of an evaluated average the gain alone is known."""
    pairs = list(zip(result.value.ravel(), exact, strict=True))
    figures = [(result.error_bound, pairs)]
    if result.gain is not None:
        figures = [(result.error_bound, [(result.gain, exact[0])])]
        if isinstance(result, ts.Solution):
            figures.append((result.value_error, pairs[1:]))
    messages = []
    for bound, pairs in figures:
        error = max(abs(Fraction(float(v)) - x) for v, x in pairs)
        if error > Fraction(bound):
            messages.append(f"{what} is off by {float(error)}, not {bound}")
    return messages


BUILDERS = (
    build_time_dependent,
    build_ending,
    build_unichain,
)  # the kinds of models that are swept
