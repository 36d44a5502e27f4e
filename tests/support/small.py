"""The optimum of a small model by NumPy: nothing to compile, another route.

discounted   V = r + discount P V
average      h = r - g + P h,  h = 0 in the first state

Dense policy iteration, for a few hundred states of any kind; or sparse sweeps until all states gain
alike, for some thousands that mix soon.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import scipy.sparse as sp

import tessella as ts

TIE_TOLERANCE = 1e-9


class Optimum(NamedTuple):
    value: np.ndarray  # (S,) or relative values
    gain: float  # per period; 0 with a discount
    policy: np.ndarray  # (S,) lowest index among the best


def iterate_policies(mdp: ts.MDP) -> Optimum:
    """Policy iteration; mends a policy only where that pays."""
    P, r = to_dense(mdp)
    at = np.arange(mdp.n_states)
    policy = mdp.feasible_mask.argmax(axis=1)
    while True:
        value, gain = evaluate_rows(mdp, P[policy, at], r[at, policy])
        q = r - gain + mdp.discount * np.einsum("ast,t->sa", P, value)
        near = TIE_TOLERANCE * max(1.0, np.abs(value).max())
        better = q.max(axis=1) > q[at, policy] + near
        if not better.any():
            return Optimum(value, gain, (q >= q.max(axis=1, keepdims=True) - near).argmax(axis=1))
        policy = np.where(better, q.argmax(axis=1), policy)


def iterate_values(mdp: ts.MDP, tol: float = 1e-9, fixed: np.ndarray | None = None) -> Optimum:
    """Sweeps v <- T v less what the first state gains, until no state differs by ``tol``.

    ``only`` is a policy, (S,) action indices, to be followed instead of the best.
    """
    n, n_actions = mdp.n_states, mdp.n_actions
    P = sp.vstack(mdp.dynamics.to_sparse(), format="csr")
    r = np.where(mdp.feasible_mask, mdp.reward, -np.inf).T
    if fixed is not None:
        r = np.where(np.arange(n_actions)[:, None] == fixed, r, -np.inf)
    value = np.zeros(n)
    while True:
        q = r + mdp.discount * (P @ value).reshape(n_actions, n)
        step = q.max(axis=0) - value
        if np.ptp(step) < tol:
            break
        value = value + step - step[0] * (1 if mdp.discount == 1 else 0)
    policy = (q >= q.max(axis=0) - 10 * tol).argmax(axis=0)
    middle = (step.max() + step.min()) / 2
    if mdp.discount == 1:
        return Optimum(value - value[0], float(middle), policy)
    return Optimum(value + step + middle * mdp.discount / (1 - mdp.discount), 0.0, policy)


def to_dense(mdp: ts.MDP) -> tuple[np.ndarray, np.ndarray]:
    """P (A, S, S) and r (S, A), -inf where an action is infeasible."""
    return mdp.to_arrays().transition, np.where(mdp.feasible_mask, mdp.reward, -np.inf)


def evaluate_rows(mdp: ts.MDP, P: np.ndarray, r: np.ndarray) -> tuple[np.ndarray, float]:
    """Values and gain of the policy with these rows and rewards."""
    system = np.eye(len(r)) - mdp.discount * P
    if isinstance(mdp.criterion, ts.Discounted):
        return np.linalg.solve(system, r), 0.0
    system[:, 0] = 1.0  # the gain in the place of the first relative value, which is 0
    found = np.linalg.solve(system, r)
    return np.concatenate([[0.0], found[1:]]), float(found[0])


def evaluate_policy(mdp: ts.MDP, table: np.ndarray) -> tuple[np.ndarray, float]:
    """Values and gain of a policy given as (S,) action indices."""
    P, r = to_dense(mdp)
    at, table = np.arange(mdp.n_states), np.ravel(table)
    return evaluate_rows(mdp, P[table, at], r[at, table])
