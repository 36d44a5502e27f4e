"""Averages by elimination, where iterations get nowhere or float64 leaves too few digits.

Chains that hardly ever leave a set of states have relative values of the size of 1 / leak, and
rounding those hides the rewards. Two things keep the digits. States are eliminated without a
subtraction (Grassmann, Taksar and Heyman 1985): a state that is left with chance s = sum_j p_j is
passed through 1 / s times, so that small chances keep all their digits. And a rise is added up
from differences of relative values h, which are pairs of floats:

    d(s, a) = r(s, a) + sum_j P(j | s, a) (h_j - h_s),      min_s max_a d <= gain <= max_s,a d.

What rounding leaves of d is eliminated again, a few times.
Improving the policy by d until nothing rises is policy iteration. A policy with several recurrent
classes is first led to the best of those that every state can reach.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.lib.stride_tricks import as_strided
from numpy.typing import NDArray

from tessella.rounding import EPS, NO_ROUNDING, ModelRounding, row_sums, two_product, two_sum
from tessella.solvers.recurrent_classes import (
    CLASSES_MAX_STATES,
    chain_classes,
    led_to,
    refuse_several_gains,
)

if TYPE_CHECKING:
    from scipy.sparse import csr_array
    from scipy.sparse.linalg import SuperLU

    from tessella.mdp.model import MDP
    from tessella.solvers.engine import Engine
    from tessella.solvers.kernels import IterationState

ELIMINATION_MAX_ENTRIES = 20_000_000  # entries of all rows together, which are written out
# Products of one elimination: states times the square of the band of the chain.
ELIMINATION_MAX_PRODUCTS = 2_000_000_000
# States that a step leads along a line, at most, where elimination is tried first.
LINE_MAX_BAND_STATES = 32
# Visits of the state that times are counted to, as a share of those of the most visited state.
REFERENCE_MIN_VISIT_SHARE = 1e-6
RESCALE_ABOVE = 1e100  # shares beyond this are scaled down
REFINEMENT_MAX_PASSES = 6  # eliminations of what is left, at most
MAX_POLICIES = 100  # policies that are evaluated, at most

Pair = tuple[NDArray[np.float64], NDArray[np.float64]]  # numbers as sums of two floats


class EliminationResult(NamedTuple):
    """What elimination proves of an average."""

    value: NDArray[np.float64]  # relative values
    policy: NDArray[np.int32]
    gain: float
    bound: float  # on the error of the gain


def eliminate_states(
    engine: Engine, state: IterationState, fixed: bool, *, early: bool = False, known: bool = False
) -> EliminationResult | None:
    """The gain of the policy of ``state`` or, unless that is ``fixed``, of the best policy.

    None where that takes too long, or too much memory; ``early``, before iterations were tried,
    also for all but a policy on a line of states. Refuses a model, or a fixed policy, that has
    several gains, or where those are not ``known`` to be alike, several sets that are never left.
    """
    mdp = engine.mdp
    if not rows_are_affordable(mdp):
        return None
    actions = np.asarray(engine.to_numpy(state.policy), dtype=np.int32).ravel()
    rows = FeasibleRows.feasible(mdp)
    rows = rows.of_policy(actions) if fixed else rows
    sets = chain_classes(rows.reachability)
    if len(sets) > 1:
        rise = (engine.to_numpy(state.backup) - engine.to_numpy(state.value)).ravel()
        ends = [(float(rise[of].min()), float(rise[of].max())) for of in sets]
        refuse_several_gains(mdp, sets, ends, float(state.floor), fixed, early or known)
        return None
    products = (
        (LINE_MAX_BAND_STATES**2 * mdp.n_states if fixed else 0)
        if early
        else ELIMINATION_MAX_PRODUCTS
    )
    with np.errstate(all="ignore"):  # what is no number is not taken
        found = _improve_policy(
            mdp, engine.row_sum_bounds.deviation, rows, actions, sets[0], products
        )
    if found is None:
        return None
    grid = mdp.grid.shape
    return found._replace(value=found.value.reshape(grid), policy=found.policy.reshape(grid))


def compute_rises_in_pairs(mdp: MDP, uneven: float, table: NDArray) -> PairRises | None:
    """The rises of all actions at the relative values of the policy ``table``, which are pairs.

    None where elimination takes too long or too much memory, or chances vanish, and for a policy
    with several recurrent classes.
    """
    if not rows_are_affordable(mdp):
        return None
    rows = FeasibleRows.feasible(mdp)
    chosen = rows.of_policy(table.ravel())
    if len(chain_classes(chosen.rows)) > 1:
        return None
    with np.errstate(all="ignore"):  # what is no number is not taken
        h = _relative_values(chosen, ELIMINATION_MAX_PRODUCTS)
        if h is None:
            return None
        rise, off = rows.rises(h, mdp.dynamics.rounding_as_saved, uneven)
    return PairRises(rows, h, rise, off) if np.isfinite(rise + off).all() else None


def rows_are_affordable(mdp: MDP) -> bool:
    """Whether the rows of a model are few enough to be written out."""
    entries = mdp.n_states * mdp.n_actions * min(mdp.dynamics.longest_row, mdp.n_states)
    return mdp.n_states <= CLASSES_MAX_STATES and entries <= ELIMINATION_MAX_ENTRIES


def factorise_until(chain: csr_array, targets: NDArray) -> SuperLU | None:
    """Factors of I - P~, with P~ the chain up to ``targets`` (S,); None where it is singular."""
    from scipy.sparse import diags_array, eye_array
    from scipy.sparse.linalg import splu

    system = eye_array(len(targets)) - chain @ diags_array((~targets).astype(float))
    try:
        return splu(system.tocsc())
    except RuntimeError:
        return None


def _improve_policy(
    mdp: MDP, uneven: float, rows: FeasibleRows, actions: NDArray, closed: NDArray, products: float
) -> EliminationResult | None:
    """Policy iteration; all states can reach ``closed``, and no policy leaves it."""
    seen = set()
    unled = actions
    for _ in range(MAX_POLICIES):
        led = _lead_to_best_class(rows, actions, closed, products)
        if led is None:
            return None
        unled = unled if led is actions else actions  # the last policy with several classes
        if led.tobytes() in seen:  # those outside of the closed set do better there
            return _refuse_unreachable_best_class(mdp, rows, unled, products)
        seen.add(led.tobytes())
        chosen = rows.of_policy(led)
        h = _relative_values(chosen, products)
        if h is None:
            return None
        rise, off = rows.rises(h, mdp.dynamics.rounding_as_saved, uneven)
        actions = rows.improve(led, rise, off)
        if (actions == led).all():
            low, high = rows.enclose_gain(rise, off)
            bound = (high - low) / 2 * (1 + 8 * EPS) + 2 * EPS * max(abs(low), abs(high))
            return EliminationResult(h[0] - h[0][0], led, float((low + high) / 2), float(bound))
    return None


def _lead_to_best_class(
    rows: FeasibleRows, actions: NDArray, closed: NDArray, products: float
) -> NDArray | None:
    """``actions``, led to the best of the recurrent classes that all states can reach."""
    chosen = rows.of_policy(actions)
    classes = chain_classes(chosen.rows)
    if len(classes) == 1:
        return actions
    gains = _class_gains(chosen, [c for c in classes if np.isin(c[0], closed)], products)
    return None if gains is None else led_to(max(gains)[1], actions, chosen.rows, rows)


def _refuse_unreachable_best_class(
    mdp: MDP, rows: FeasibleRows, actions: NDArray, products: float
) -> None:
    """Refuse a model whose best class is outside of the set that all states can reach."""
    chosen = rows.of_policy(actions)
    classes = chain_classes(chosen.rows)
    gains = _class_gains(chosen, classes, products)
    if gains is not None and len(classes) > 1:
        refuse_several_gains(mdp, classes, [(gain, gain) for gain, _ in gains], 0.0, False, False)


def _class_gains(
    chosen: FeasibleRows, classes: list[NDArray], products: float
) -> list[tuple[float, int]] | None:
    """(what a policy earns per period in a recurrent class, a state of it)."""
    found = []
    for states in classes:
        part = chosen.restrict_to(states)
        factors = EliminationFactors.of(part.rows, products)
        if factors is None:
            return None
        found.append((factors.solve(part.reward)[1], int(states[0])))
    return found


def _relative_values(chosen: FeasibleRows, products: float) -> Pair | None:
    """Relative values of a policy with one recurrent class."""
    factors = EliminationFactors.of(chosen.rows, products)
    if factors is None:
        return None
    nothing = np.zeros(len(chosen.state))
    h = (nothing, nothing)
    rise = chosen.reward
    left = math.inf
    for _ in range(REFINEMENT_MAX_PASSES):
        if np.ptp(rise) <= 2 * EPS * abs(rise).max():
            break
        middle = (rise.max() + rise.min()) / 2
        more, _ = factors.solve(rise - middle)
        high, low = two_sum(h[0], more)
        new = two_sum(high, low + h[1])
        if not np.isfinite(new[0]).all():
            return None
        rise = chosen.rises(new)[0]
        if not np.ptp(rise) < left / 2:
            break
        h = new
        left = np.ptp(rise)
    return h


class FeasibleRows(NamedTuple):
    """Rows of some states and actions."""

    state: NDArray[np.intp]  # (K,)
    action: NDArray[np.intp]  # (K,)
    rows: csr_array  # (K, S)
    reward: NDArray[np.float64]  # (K,)

    @staticmethod
    def feasible(mdp: MDP) -> FeasibleRows:
        """Of all states and actions that are allowed."""
        from scipy.sparse import csr_array, vstack

        matrices = [csr_array(matrix) for matrix in mdp.dynamics.to_sparse()]
        action, state = np.nonzero(mdp.feasible_mask.T)
        rows = csr_array(vstack(matrices, format="csr"))[action * mdp.n_states + state]
        rows.sum_duplicates()
        rows.eliminate_zeros()
        return FeasibleRows(state, action, rows, mdp.reward[state, action])

    def of_policy(self, actions: NDArray) -> FeasibleRows:
        """Those of a policy, one for each state."""
        chosen = np.flatnonzero(self.action == actions[self.state])
        chosen = chosen[np.argsort(self.state[chosen])]
        return FeasibleRows(
            self.state[chosen], self.action[chosen], self.rows[chosen], self.reward[chosen]
        )

    def restrict_to(self, states: NDArray) -> FeasibleRows:
        """Those of a set of states that is never left, numbered as they stand in it."""
        place = np.full(self.n_states, -1)
        place[states] = np.arange(len(states))
        own = np.flatnonzero(place[self.state] >= 0)
        rows = self.rows[own][:, states]
        return FeasibleRows(place[self.state[own]], self.action[own], rows, self.reward[own])

    @property
    def n_states(self) -> int:
        return int(self.rows.shape[1])  # type: ignore[index]

    @property
    def reachability(self) -> csr_array:
        """(S, S) positive where some action may lead."""
        from scipy.sparse import coo_array, csr_array

        entries = self.rows.tocoo()
        places = self.state[entries.row], entries.col
        n = self.n_states
        return csr_array(coo_array((np.ones(entries.nnz), places), shape=(n, n)))

    def rises(self, h: Pair, written: ModelRounding = NO_ROUNDING, uneven: float = 0.0) -> Pair:
        """((K,) r + sum_j p_j (h_j - h_s), by how much that may be off).

        Rows and rewards are off by ``written``, and the sums of rows by ``uneven``.
        """
        rows, (high, low) = self.rows, h
        lengths = np.diff(rows.indptr)
        here = np.repeat(self.state, lengths)
        there = rows.indices
        apart, cut = two_sum(high[there], -high[here])
        product, rest = two_product(rows.data, apart)
        rest += rows.data * (cut + (low[there] - low[here]))
        sums, cuts, _ = row_sums(rows.indptr, product)
        paid, slip = two_sum(self.reward, sums)
        row = np.repeat(np.arange(len(lengths)), lengths)
        rise = paid + (slip + cuts + np.bincount(row, rest, minlength=len(lengths)))
        sizes = np.bincount(row, abs(product), minlength=len(lengths))
        second = (((lengths.max() + 8) * EPS) ** 2) * 4 * abs(high).max()
        off = 4 * EPS * abs(rise) + second + written.reward + (written.rows + EPS**2) * sizes
        return rise, (off + uneven * abs(rise - self.reward)) * (1 + 8 * EPS)

    def max_by_state(self, numbers: NDArray) -> NDArray[np.float64]:
        """(S,) the largest of each state."""
        most = np.full(self.n_states, -np.inf)
        np.maximum.at(most, self.state, numbers)
        return most

    def enclose_gain(self, rise: NDArray, off: NDArray) -> tuple[float, float]:
        """What the best gain is at least and at most, where a rise is off by ``off``."""
        return float(self.max_by_state(rise - off).min()), float((rise + off).max())

    def improve(self, actions: NDArray, rise: NDArray, off: NDArray) -> NDArray[np.int32]:
        """``actions``, with the best where that surely rises more."""
        own = self.action == actions[self.state]
        now = self.max_by_state(np.where(own, rise + off, -np.inf))
        best = self.max_by_state(rise - off)
        taken = (rise - off == best[self.state]) & (best > now)[self.state]
        better = actions.copy()
        better[self.state[taken]] = self.action[taken]
        return better


class PairRises(NamedTuple):
    """Rises of rows at relative values that are pairs of floats."""

    rows: FeasibleRows
    value: Pair
    rise: NDArray[np.float64]  # (K,)
    off: NDArray[np.float64]  # (K,) by how much that may be off

    def enclose_gain(self, table: NDArray | None = None) -> tuple[float, float]:
        """What the gain of ``table``, or without one the best, is at least and at most."""
        rows = self.rows
        rise = self.rise
        off = self.off
        if table is not None:
            own = rows.action == table.ravel()[rows.state]
            return float((rise - off)[own].min()), float((rise + off)[own].max())
        return rows.enclose_gain(rise, off)


class EliminationFactors(NamedTuple):
    """A chain with one recurrent class, eliminated state by state.

    States are in the order of elimination, the last recurrent; each is left for states at most
    ``band`` further on, and entered from those.
    """

    order: NDArray[np.intp]
    ahead: NDArray[np.float64]  # (n, n), of which a band is stored: where a state is left for
    exit_probability: NDArray[np.float64]  # (n,) chance to leave it for a later one
    band: int

    @staticmethod
    def of(chain: csr_array, products: float) -> EliminationFactors | None:
        """None where that takes more ``products``, or where chances vanish."""
        last = int(chain_classes(chain)[0][0])
        factors = EliminationFactors._towards(last, chain, products)
        if factors is None:
            return None
        shares = factors.stationary_distribution()
        if shares[last] >= REFERENCE_MIN_VISIT_SHARE * shares.max():
            return factors
        # Between two visits of a state that is hardly ever visited, too much happens.
        return EliminationFactors._towards(int(shares.argmax()), chain, products)

    @staticmethod
    def _towards(last: int, chain: csr_array, products: float) -> EliminationFactors | None:
        from scipy.sparse.csgraph import breadth_first_order

        n = int(chain.shape[0])  # type: ignore[index]
        order = breadth_first_order(chain, last, directed=False)[0][::-1]
        place = np.empty(n, dtype=np.intp)
        place[order] = np.arange(n)
        entries = chain.tocoo()
        row = place[entries.row]
        column = place[entries.col]
        band = max(int(abs(row - column).max(initial=0)), 1)
        if n * band * band > products:
            return None
        # Entry (i, j) of the band is at i (2 band + 1) + (j - i + band): a stride of 2 band.
        flat = np.zeros(n * (2 * band + 1) + 2 * band)
        flat[row * 2 * band + column + band] = entries.data
        step = flat.itemsize
        ahead = as_strided(flat[band:], (n, n), (2 * band * step, step))
        leaves = np.ones(n)
        for k in range(n - 1):
            after = slice(k + 1, min(k + band + 1, n))
            chances = ahead[k, after]
            leaves[k] = chances.sum()
            if not leaves[k] > 0:
                return None
            chances /= leaves[k]
            ahead[after, after] += np.multiply.outer(ahead[after, k], chances)
        return EliminationFactors(order, ahead, leaves, band)

    def stationary_distribution(self) -> NDArray[np.float64]:
        """(n,) the shares of time in the long run, each to nearly all digits."""
        n = len(self.order)
        shares = np.ones(n)
        for k in range(n - 2, -1, -1):
            after = slice(k + 1, min(k + self.band + 1, n))
            shares[k] = self.ahead[after, k] @ shares[after] / self.exit_probability[k]
            if shares[k] > RESCALE_ABOVE:
                shares[k:] /= shares[k]
        return self._in_state_order(shares / shares.sum())

    def _in_state_order(self, numbers: NDArray) -> NDArray[np.float64]:
        """What is in the order of elimination, in that of the states."""
        back = np.empty_like(numbers)
        back[self.order] = numbers
        return back

    def solve(self, reward: NDArray) -> tuple[NDArray[np.float64], float]:
        """(relative values, 0 in the last state; gain): h = reward - gain + P h."""
        n = len(self.order)
        ahead = self.ahead
        leaves = self.exit_probability
        paid = reward[self.order]
        time = np.ones(n)
        for k in range(n - 1):
            after = slice(k + 1, min(k + self.band + 1, n))
            visits = ahead[after, k] / leaves[k]
            paid[after] += visits * paid[k]
            time[after] += visits * time[k]
        gain = paid[-1] / time[-1]
        h = (paid - gain * time) / leaves
        h[-1] = 0.0
        for k in range(n - 2, -1, -1):
            after = slice(k + 1, min(k + self.band + 1, n))
            h[k] += ahead[k, after] @ h[after]
        return self._in_state_order(h), float(gain)
