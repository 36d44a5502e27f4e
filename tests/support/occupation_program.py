"""Random models with constraints, and their optimum by the linear program over occupation measures.

Nothing of the package is used to say what the optimum is: HiGHS maximises ``sum x r`` over
x(s, a) >= 0 that balance, with the constraints as rows ``sum x (n - b d) >= 0``.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.optimize import linprog

import tessella as ts

FORMULAS = {"share": "c0 / below", "kept": "1 - c1 / below", "amount": "c2"}
LP_TOLERANCE = 1e-7  # of HiGHS, relative to the size of the optimum


@dataclass(frozen=True)
class ConstrainedModel:
    """A model of random arrays and its constraints."""

    mdp: ts.MDP
    transition: np.ndarray  # (A, S, S)
    reward: np.ndarray  # (S, A)
    counts: dict[str, np.ndarray]  # (S, A)
    subject_to: dict[str, ts.AtLeast | ts.AtMost]

    @property
    def is_average(self) -> bool:
        return self.mdp.criterion.has_gain

    def row(self, name: str) -> tuple[np.ndarray, float]:
        """A constraint as ``row @ x >= number``."""
        constraint = self.subject_to[name]
        c = self.counts
        top = {"share": c["c0"], "kept": c["below"] - c["c1"], "amount": c["c2"]}[name]
        below = np.zeros_like(top) if name == "amount" else c["below"]
        number = constraint.sign * constraint.level if name == "amount" else 0.0
        return constraint.sign * (top - constraint.level * below).ravel(), number


def compute_occupation(mdp: ts.MDP, transition: np.ndarray, policy: np.ndarray) -> np.ndarray:
    """(S, A) occupation measure of a randomised policy (S, A), from a uniform start."""
    n = len(policy)
    chain = np.einsum("sa,asz->sz", policy, transition)
    if mdp.criterion.has_gain:
        system = np.vstack([np.eye(n) - chain.T, np.ones(n)])
        visits = np.linalg.lstsq(system, np.append(np.zeros(n), 1.0), rcond=None)[0]
    else:
        visits = np.linalg.solve(np.eye(n) - mdp.discount * chain.T, np.full(n, 1 / n))
    return visits[:, None] * policy


def draw_model(seed: int) -> ConstrainedModel:
    """A model with one to three constraints near what a random randomised policy reaches."""
    rng = np.random.default_rng(seed)
    has_ties = seed % 5 == 4  # whole numbers
    n = int(rng.integers(2, 12)) * (10 if seed % 11 == 10 else 1)
    n_actions = int(rng.integers(2, 5))
    transition = rng.dirichlet(np.full(n, 0.5), size=(n_actions, n))
    reward = rng.normal(size=(n, n_actions))
    criterion = ts.Average() if seed % 2 else float(rng.uniform(0.5, 0.99))
    if seed % 2:
        transition = 0.9 * transition + 0.1 / n
    counts = {f"c{j}": rng.uniform(0, 1, reward.shape) for j in range(3)}
    if has_ties:
        reward = reward.round()
        counts = {name: amounts.round() for name, amounts in counts.items()}
    counts["below"] = rng.uniform(0.5, 1.5, reward.shape)
    mdp = ts.MDP.from_arrays(transition, reward, criterion).with_measures(**counts)
    mdp = mdp.with_measures(**FORMULAS)
    x = compute_occupation(mdp, transition, rng.dirichlet(np.ones(n_actions), size=n))
    levels = _compute_measures(x, counts)
    slack = rng.choice([0.0, 0.02, -0.3], p=[0.3, 0.5, 0.2])  # below 0, most cannot be met
    if has_ties and slack == 0:  # if all policies have equal counts, there is nothing to prove
        slack = 0.02
    subject_to = {
        name: _draw_constraint(rng, levels[name], slack) for name in list(FORMULAS)[: 1 + seed % 3]
    }
    return ConstrainedModel(mdp, transition, reward, counts, subject_to)


def _compute_measures(x: np.ndarray, counts: dict[str, np.ndarray]) -> dict[str, float]:
    c0, c1, c2, below = ((x * amounts).sum() for amounts in counts.values())
    return {"share": c0 / below, "kept": 1 - c1 / below, "amount": c2}


def _draw_constraint(rng: np.random.Generator, level: float, slack: float):
    kind = ts.AtLeast if rng.random() < 0.5 else ts.AtMost
    return kind(float(level * (1 - kind.sign * slack)))


def solve_program(model: ConstrainedModel) -> float | None:
    """The optimum by HiGHS; None where no policy satisfies the constraints."""
    n_actions, n, _ = model.transition.shape
    discount = 1.0 if model.is_average else model.mdp.discount
    arrivals = model.transition.transpose(1, 0, 2).reshape(n * n_actions, n).T
    balance = np.repeat(np.eye(n), n_actions, axis=1) - discount * arrivals
    start = np.full(n, 1 / n)
    if model.is_average:
        balance = np.vstack([balance, np.ones(n * n_actions)])
        start = np.append(np.zeros(n), 1.0)
    rows, numbers = zip(*(model.row(name) for name in model.subject_to), strict=True)
    result = linprog(
        -model.reward.ravel(),
        A_ub=-np.array(rows),
        b_ub=-np.array(numbers),
        A_eq=balance,
        b_eq=start,
    )
    assert result.status in (0, 2), result.message
    return None if result.status == 2 else -float(result.fun)


def find_faults(seed: int) -> list[str]:
    """What is wrong with the constrained optimum of a random model."""
    model = draw_model(seed)
    optimum = solve_program(model)
    try:
        result = ts.solve(model.mdp, subject_to=model.subject_to)
    except ts.ArgumentError as error:
        return [] if optimum is None else [f"{seed}: the optimum is {optimum}, not: {error}"]
    if optimum is None:
        return [f"{seed}: no policy satisfies the constraints, but [{result.low}, {result.high}]"]
    tolerance = LP_TOLERANCE * max(1.0, abs(optimum))
    messages = []
    if not result.low - tolerance <= optimum <= result.high + tolerance:
        messages.append(f"{seed}: {optimum} is not in [{result.low}, {result.high}]")
    if result.high - result.low > tolerance:
        messages.append(f"{seed}: the bounds are {result.high - result.low} apart")
    return messages + _find_mixture_faults(seed, model, result)


def _find_mixture_faults(
    seed: int, model: ConstrainedModel, result: ts.ConstrainedSolution
) -> list[str]:
    """Check the mixture, and the policy that randomises in few states, by dense linear algebra."""
    messages = []
    n_extra = sum(len(state.actions) - 1 for state in result.randomised)
    if not n_extra <= len(model.subject_to):
        messages.append(f"{n_extra} actions are drawn for {len(model.subject_to)} constraints")
    if len(result.mixture) > 1 and not n_extra:
        messages.append("a policy is drawn at the start, and no action")
    for subject, x in _list_occupations(model, result).items():
        messages += [f"{subject} {fault}" for fault in _check_earnings(model, result, subject, x)]
        messages += [f"{subject} {fault}" for fault in _check_constraints(model, x)]
    return [f"{seed}: {message}" for message in messages]


def _list_occupations(
    model: ConstrainedModel, result: ts.ConstrainedSolution
) -> dict[str, np.ndarray]:
    """Occupations of the mixture, the randomised policy and the best policy, where they exist."""
    parts = [(weight, _to_probabilities(model, policy.table)) for weight, policy in result.mixture]
    occupations = {"the mixture": sum(w * _occupy(model, p) for w, p in parts)}
    if result.randomised:
        policy = parts[0][1].copy()
        for state in result.randomised:
            policy[state.state] = 0.0
            policy[state.state, state.actions] = state.probabilities
        occupations["the drawn action"] = _occupy(model, policy)
    if result.best is not None:
        best = _to_probabilities(model, result.best.policy.table)
        occupations["the best policy"] = _occupy(model, best)
    return occupations


def _check_earnings(
    model: ConstrainedModel, result: ts.ConstrainedSolution, subject: str, x: np.ndarray
) -> list[str]:
    size = max(1.0, abs(result.high))
    reward = float((x * model.reward).sum())
    if reward > result.high + 1e-9 * size:
        return [f"earns {reward}, above the bound {result.high}"]
    if subject != "the best policy" and reward < result.low - 1e-8 * size:
        return [f"earns {reward}, below {result.low}"]
    return []


def _check_constraints(model: ConstrainedModel, x: np.ndarray) -> list[str]:
    messages = []
    for name in model.subject_to:
        row, number = model.row(name)
        if row @ x.ravel() < number - 1e-9 * max(1.0, np.abs(row * x.ravel()).sum()):
            messages.append(f"misses {name} by {number - row @ x.ravel()}")
    return messages


def _to_probabilities(model: ConstrainedModel, table: np.ndarray) -> np.ndarray:
    return np.eye(model.reward.shape[1])[table.ravel()]


def _occupy(model: ConstrainedModel, policy: np.ndarray) -> np.ndarray:
    return compute_occupation(model.mdp, model.transition, policy)
