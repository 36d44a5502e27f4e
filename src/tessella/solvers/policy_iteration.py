"""Policy iteration, exact and inexact, without a matrix.

With pi greedy at v and d = T v - v = T_pi v - v, the value of pi is v + e where

    (I - discount P_pi) e = d.

It is solved to nearly full accuracy (policy iteration), or only until the residual has fallen by
``forcing`` (inexact policy iteration: what is left is mended after the next improvement): by sweeps
where a few will do, else by BiCGSTAB, which needs only products with P_pi. The iteration count of a
Krylov method hardly grows as the discount approaches 1, where sweeps of a chain that mixes slowly
need 1 / (1 - discount) of them.

Small tables, and those of short rows, are first swept over all actions (``settle``): NumPy compares
all of these in one go, and fewer policies are left to evaluate.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tessella.numerics import numerics
from tessella.solvers.method import Method, between, whole

if TYPE_CHECKING:
    from tessella.solvers.kernels import State
    from tessella.solvers.operators import Operators

TRIED = 4  # sweeps of a policy that show how fast sweeps are
FEW = 40, 100  # where no more are needed, nothing is quicker: of tables, and through stages
EARLY = 8  # sweeps through stages for a policy that still changes in more states ...
SETTLED = 1e-3, 250  # ... than this share of all; and the most, once it has settled
HELPED = 0.5  # a linear solve that leaves more of the residual's span than this has failed
NEARLY_EXACT = 1e-13  # of the residual: what policy iteration leaves of it
SWEEPS_INSTEAD = 2  # for each product that got nowhere: most of the work is then of use
PATIENCE = 50  # steps of a linear solver before a direct solve takes over, where there is one
NEEDED = 0.1  # of the residual that may be left: its norm may hide entries larger than itself
LEFT = 0.5  # the same of what sweeps leave, whose pace is that of the largest entries
FINER = 0.1  # without a tolerance: narrow bounds cost one round more
RISKED = 4  # a linear solver may take so many sweeps less in steps, of two products each
SPARE = 0.01  # of the share that is left to reach the target: what a linear solver may leave
TINY = 1e-300
BURST = 8  # sweeps over all actions between looks at the policy
BURSTS = 50, 5  # one for so many states, at most so many: they cost about as much as evaluating
STAYS = 0.01  # of the states may change their action in a burst, and the policy counts as settled
DIRECTLY = 4, 400  # sweeps that take as long as a direct solve: times root of states, at most
ITERATED = 60  # sweeps that take as long as a solve by iterations
DIRECT = 1000  # states up to which a table's linear systems are solved in one of these two ways


@dataclass(frozen=True)
class PolicyIteration(Method):
    """Howard's policy iteration; each policy is evaluated to nearly full accuracy."""

    max_sweeps: int = field(default=10_000, compare=False)
    max_products: int = 500

    linear, traced = True, False

    def __post_init__(self) -> None:
        super().__post_init__()
        whole(self, "max_products", 1)

    def refine(self, operators: Operators, state: State):
        forcing = NEARLY_EXACT
        if operators.data.coarse is not None:
            forcing = enough(operators, state, forcing)
        return evaluate_greedy(operators, state, forcing, self.max_products)


@dataclass(frozen=True)
class InexactPolicyIteration(Method):
    """Policy iteration with evaluations cut short: the automatic choice.

    ``forcing`` and ``max_products`` are of the linear solver; that of small tables has its own.
    """

    max_sweeps: int = field(default=10_000, compare=False)
    forcing: float = 1e-2
    max_products: int = 200

    safeguarded, linear, traced = True, True, False

    def __post_init__(self) -> None:
        super().__post_init__()
        between(self, "forcing", 0, 1)
        whole(self, "max_products", 1)

    def refine(self, operators: Operators, state: State):
        if operators.quick:
            return improved(operators, state, self.forcing, self.max_products)
        forcing = enough(operators, state, self.forcing)
        return evaluate_greedy(operators, state, forcing, self.max_products)


def improved(operators: Operators, state: State, forcing: float, max_products: int):
    """The next point where a sweep over all actions costs next to nothing, or news travels slowly.

    Evaluating a policy that the next few sweeps would change anyway is in vain, so sweeps over all
    actions come first, until they leave the policy about as it is. If they show that a few more
    reach the target, those are all; else the policy is evaluated: directly if the model is small
    and its rows are short, by a linear solver if they are long.
    """
    settled, criterion = settle(operators, state), operators.criterion
    value, backup, policy, n = settled.value, settled.backup, settled.policy, state.value.size
    residual = backup - value
    shared = criterion.shared(residual)  # known without solving: it is paid for ever
    few = min(DIRECTLY[0] * math.sqrt(n), ITERATED if operators.iterates else DIRECTLY[1])
    if settled.needed <= few:
        ahead = backup + criterion.discount * criterion.forever(shared)
        return operators.swept_under(policy, ahead, settled.needed)
    if n > DIRECT:
        found = state._replace(value=value, backup=backup, policy=policy)
        return evaluate_greedy(operators, found, forcing, max_products)
    tol = max(SPARE * settled.share, NEARLY_EXACT if settled.stays else forcing)
    e = operators.solved(policy, residual - shared, tol)
    return operators.evaluated(value + criterion.forever(shared), e)


class Settled(NamedTuple):
    """A point that sweeps over all actions lead to."""

    value: NDArray[np.float64]  # v, (grid)
    backup: NDArray[np.float64]  # T v, (grid)
    policy: NDArray[np.int32]  # greedy at v, (grid)
    needed: int  # sweeps from here to the target, at the pace of the last ones
    share: float  # of its bound that is wanted: half the target
    stays: bool  # whether the last sweeps left the policy about as it was


def settle(operators: Operators, state: State) -> Settled:
    """Sweep over all actions until that leaves the policy about as it is, or for long enough."""
    from tessella.solvers.kernels import target

    criterion, aim = operators.criterion, float(target(operators.data, state.floor)) / 2
    last, n = float(criterion.spread(state.backup - state.value)), state.value.size
    now = Settled(state.value, state.backup, state.policy, 0, 1.0, False)
    for _ in range(min(max(n // BURSTS[0], 1), BURSTS[1])):
        value = operators.swept(now.backup, BURST - 1)
        backup, policy = operators.bellman(value)
        left = float(criterion.spread(backup - value))
        rho = (left / max(last, TINY)) ** (1 / BURST)
        bound = float(criterion.error(criterion.discount * left / 2))
        stays, last = np.count_nonzero(policy != now.policy) <= STAYS * n, left
        needed, share = sweeps_between(bound, aim, rho), min(aim / max(bound, TINY), 1.0)
        now = Settled(value, backup, policy, needed, share, stays)
        if not needed or stays:
            break
    return now


def sweeps_between(bound: float, aim: float, rho: float) -> int:
    """Sweeps from one bound to another, if each leaves ``rho`` of it; 0 where nothing is left."""
    if not aim < bound < math.inf:
        return 0
    return math.ceil(math.log(max(aim / bound, TINY)) / math.log(min(max(rho, TINY), 1 - 1e-9)))


def evaluate_greedy(operators: Operators, state: State, forcing: float, max_products: int):
    """v + e, by whichever way gets there: what the first few sweeps show decides.

    Sweeps of the policy cut the span of the residual by some rho each. Where few of them will do,
    they are the cheapest way; else the linear solver takes over. It may get nowhere (no Krylov
    method beats sweeps on a long line of states before it has gone along it once), and then sweeps
    go as far as they go. Tables are then solved directly; where other dynamics offer a direct
    solve, a run that stalls so is helped by one (see ``driver``).
    """
    xp = numerics(state.value)
    spread, first = operators.criterion.spread, state.backup - state.value
    begun = operators.criterion.step(state.value, state.backup)
    tried, left = swept(operators, state.policy, begun)
    rho = (spread(left) / xp.maximum(spread(first), TINY)) ** (1 / (TRIED + 1))
    pace, most = xp.log(xp.clip(rho, TINY, 1 - 1e-9)), FEW[not operators.direct]
    needed = xp.log(forcing) / pace - TRIED
    few, wanted = needed <= most, needed
    if not operators.direct:  # a sweep of all actions takes hardly longer than one of a policy
        last = xp.log(xp.clip(LEFT * end(operators, state), TINY, 1.0)) / pace - TRIED
        settled = state.changed <= SETTLED[0] * state.value.size
        wanted = xp.where(settled, xp.minimum(last, SETTLED[1]), xp.minimum(needed, EARLY))
    # Whichever way ends in sweeps leaves them to one loop, so that it is compiled once.
    value, count = xp.either(
        few,
        lambda: (tried, xp.ceil(xp.maximum(wanted, 0)).astype(int)),
        lambda: solve_linear(operators, state.policy, tried, left, forcing, max_products, needed),
    )
    return xp.repeat(count, lambda v: operators.plain(state.policy, v), value)


def enough(operators: Operators, state: State, forcing: float):
    """The forcing, but no less than the run still needs: what a last round does beyond is in vain.

    So it is close to what rounding leaves, where a linear solver would go on for all its products.
    """
    wanted = NEEDED * end(operators, state)
    return numerics(wanted).clip(wanted, forcing, 0.5)


def end(operators: Operators, state: State):
    """The share of its bound that a run may end with; of one that nobody limited, less."""
    from tessella.solvers.kernels import target

    data, share = operators.data, target(operators.data, state.floor) / state.bound
    if data.coarse is not None:
        return share
    return numerics(share).where(data.numbers.tol > 0, share, FINER * share)


def swept(operators: Operators, policy, begun):
    """The point after ``TRIED`` sweeps, and its residual, which is half of one more."""

    def sweep(carry):
        value = carry[2]
        backup = operators.sweep(policy, value)
        return value, backup, operators.criterion.step(value, backup)

    value, backup, _ = numerics(begun).repeat(TRIED + 1, sweep, (begun, begun, begun))
    return value, backup - value


def solve_linear(operators: Operators, policy, value, left, forcing, max_products: int, needed):
    """(v + e, 0) with e by BiCGSTAB; (v, sweeps to do) where that leaves too much of ``left``.

    ``left`` (grid) is the residual at v. Sweeps would need ``needed`` of them: a solver that gets
    nowhere has cost half as much at most.
    """
    xp = numerics(value)

    def system(e):
        return operators.left(policy, e)

    # What all states share is known without solving: it is paid for ever.
    spread, shared = operators.criterion.spread, operators.criterion.shared(left)
    most, rough = max(max_products // 2, 1), operators.preconditioned
    if operators.direct:
        most = min(most, PATIENCE)
    else:
        most = xp.clip(needed / RISKED, TRIED, most).astype(int)
    e = xp.bicgstab(system, left - shared, tol=forcing, maxiter=most, rough=rough)
    value = value + operators.criterion.forever(shared)
    # A small norm may hide large entries; sweeps even them out.
    found, rest = swept(operators, policy, operators.evaluated(value, e))
    helped = spread(rest) <= HELPED * spread(left)
    if operators.direct and not helped:
        e = operators.solved(policy, left - shared)
        return swept(operators, policy, operators.evaluated(value, e))[0], 0
    instead = xp.clip(xp.ceil(needed), 0, SWEEPS_INSTEAD * max_products).astype(int)
    return xp.where(helped, found, value), xp.where(helped, 0, instead)
