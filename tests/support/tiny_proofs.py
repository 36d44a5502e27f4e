"""Tiny models, and the least sizes of their rules, by trying all tables of actions.

Axes may be idle, of text, of one value, uneven or out of order; actions may tie or be infeasible.
Nothing of the package is used to say what a table loses and how small a rule can have it:

one action         the same everywhere
order up to        every slope between two at which a state takes another action; every S, s, lot,
                   cap and Q
linear index       every direction between two at which states change places; three axes by an LP
run-length table   runs in every order of the axes
staircase          bands of equal rows, each of which rises or falls
axis tree          cut everywhere, the parts by themselves
monotone surface   whether it rises or falls along every axis
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache, cached_property

import numpy as np
from scipy.optimize import linprog

import tessella as ts

CRITERIA = ("discounted", "average", "total", "finite horizon")
LOSS_LIMITS = (0.0, 0.0, 0.01, 0.1)
MAX_TABLES = 7_000  # of a model: actions to the power of states
DISCOUNT, PERIODS = 0.9, 2
CLASSES = (
    ts.OneAction(),
    ts.OrderUpTo(),
    ts.LinearCuts(),
    ts.RunLength(),
    ts.Staircase(),
    ts.MonotoneSurface(),
    ts.AxisTree(),
)
SEARCHED_CLASSES = ("order up to", "monotone surface")  # found sizes are not compared
LOSS_TOLERANCE = 1e-8  # of the largest value: losses that may count as any promise


@dataclass(frozen=True)
class TinyModel:
    """A model with its arrays.

    Attributes:
        axes: name to values, time included where there is a horizon.
        actions: numbers.
        rows: (A, S, S) probabilities times the discount; 0 where the process has ended.
        reward: (S, A).
        feasible: (S, A).
        start: (S,).
    """

    criterion: str
    mdp: ts.MDP
    axes: dict[str, list]
    actions: tuple[float, ...]
    rows: np.ndarray
    reward: np.ndarray
    feasible: np.ndarray
    start: np.ndarray

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(map(len, self.axes.values()))

    @cached_property
    def tables(self) -> np.ndarray:
        """(B, S) all tables of feasible actions."""
        options = [np.flatnonzero(row).tolist() for row in self.feasible]
        return np.array(list(itertools.product(*options)))

    @cached_property
    def values(self) -> np.ndarray:
        """(B, S) value, or gain, of each table."""
        n = len(self.reward)
        rows, rewards = self.rows[self.tables, np.arange(n)], self.reward[np.arange(n), self.tables]
        if self.criterion != "average":
            return np.linalg.solve(np.eye(n) - rows, rewards[..., None])[..., 0]
        system = np.swapaxes(np.eye(n) - rows, 1, 2).copy()
        system[:, -1] = 1.0
        shares = np.linalg.solve(system, np.eye(n)[-1][:, None])[..., 0]
        return np.repeat((shares * rewards).sum(axis=1)[:, None], n, axis=1)

    def losses(self, worst: bool) -> np.ndarray:
        losses = self.values.max(axis=0) - self.values
        return losses.max(axis=1) if worst else losses @ self.start


def draw_model(seed: int) -> TinyModel:
    rng = np.random.default_rng(seed)
    criterion = CRITERIA[seed % len(CRITERIA)]
    room = 4 if criterion == "finite horizon" else 8
    axes, idle = draw_axes(rng, room)
    n = int(np.prod([len(v) for v in axes.values()]))
    states = n * (PERIODS if room == 4 else 1)
    max_actions = int(MAX_TABLES ** (1 / states))
    actions = draw_actions(rng, int(rng.integers(2, min(max_actions, 5) + 1)))
    rows, reward, feasible = draw_arrays(rng, axes, idle, actions)
    if criterion == "total":
        end = int(rng.integers(n))
        rows = 0.7 * rows
        rows[:, :, end] += 0.3
        rows[:, end], reward[end] = np.eye(n)[end], 0.0
    criteria = {
        "discounted": DISCOUNT,
        "average": ts.Average(),
        "total": ts.Total(),
        "finite horizon": ts.FiniteHorizon(PERIODS, DISCOUNT),
    }
    mdp = ts.MDP.from_arrays(
        rows, reward, criteria[criterion], grid=axes, actions=actions, feasible=feasible
    )
    if criterion == "total":
        rows[:, end] = 0.0
    if criterion == "discounted":
        rows = DISCOUNT * rows
    if criterion == "finite horizon":
        period_rows = rows
        rows = np.zeros((len(actions), states, states))
        for t in range(PERIODS - 1):
            rows[:, t * n : (t + 1) * n, (t + 1) * n : (t + 2) * n] = DISCOUNT * period_rows
        reward, feasible = np.tile(reward, (PERIODS, 1)), np.tile(feasible, (PERIODS, 1))
        axes = {"time": list(range(PERIODS)), **axes}
    has_single_start = rng.random() < 0.3
    start = (
        np.eye(states)[int(rng.integers(states))]
        if has_single_start
        else np.full(states, 1 / states)
    )
    return TinyModel(criterion, mdp, axes, actions, rows, reward, feasible, start)


def draw_axes(rng: np.random.Generator, room: int) -> tuple[dict[str, list], list[bool]]:
    """Axes of at most ``room`` states in all, and which of them are idle."""
    axes, idle = {}, []
    for name in rng.permutation(["x", "y", "z"])[: int(rng.integers(1, 4))].tolist():
        max_length = min(room, 4)
        length = int(rng.integers(1, max_length + 1))
        room //= length
        step = float(rng.choice([1.0, 1.0, 0.1, 2.0]))
        kind = rng.integers(7)
        values = [k * step for k in range(length)]
        if kind == 0:
            values = [f"{name}{k}" for k in range(length)]
        elif kind == 1:
            values = [step * k * (k + 1) / 2 + 1 for k in range(length)]
        elif kind == 2:
            values = rng.permutation(values).tolist()
        axes[name] = values
        idle.append(bool(rng.random() < 0.4))
    return axes, idle


def draw_actions(rng: np.random.Generator, count: int) -> tuple[float, ...]:
    if rng.random() < 0.7:
        return tuple(range(count))
    return tuple(np.sort(rng.choice(8, size=count, replace=False)).tolist())


def draw_arrays(
    rng: np.random.Generator, axes: dict[str, list], idle: list[bool], actions: tuple
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(A, S, S) rows, (S, A) rewards and feasible actions, alike along idle axes."""
    shape = [len(v) for v in axes.values()]
    active = [1 if i else n for i, n in zip(idle, shape, strict=True)]
    n, k = int(np.prod(shape)), len(actions)

    def spread(array: np.ndarray) -> np.ndarray:
        wide = array.reshape(*active, *array.shape[1:])
        return np.broadcast_to(wide, (*shape, *array.shape[1:])).reshape(n, *array.shape[1:])

    n_active = int(np.prod(active))
    if rng.random() < 0.5:  # all actions lead to the same places: a table that is best everywhere
        rows = np.repeat(spread(rng.dirichlet(np.ones(n), size=n_active))[None], k, axis=0)
        best = spread(draw_table(rng, axes, idle, actions)[:, None])[:, 0]
        reward = np.eye(k)[best] * rng.choice([1.0, 2.0], size=(n, 1))
    else:
        law = rng.dirichlet(np.ones(n), size=(k, n_active))
        rows = np.stack([spread(one) for one in law])
        reward = spread(rng.integers(-1, 3, size=(n_active, k)).astype(float)).copy()
    feasible = np.ones((n, k), dtype=bool)
    if rng.random() < 0.3:
        is_feasible = rng.random((n_active, k)) < 0.7
        is_feasible[np.arange(n_active), rng.integers(k, size=n_active)] = True
        feasible = spread(is_feasible).copy()
    return rows, reward, feasible


def draw_table(
    rng: np.random.Generator, axes: dict[str, list], idle: list[bool], actions: tuple
) -> np.ndarray:
    """Actions over the axes that are not idle: at random, or up to a level of a weighted sum."""
    parts = [
        np.zeros(1) if still else np.arange(float(len(v))) if isinstance(v[0], str) else np.array(v)
        for v, still in zip(axes.values(), idle, strict=True)
    ]
    points = np.stack([m.ravel() for m in np.meshgrid(*parts, indexing="ij")], axis=-1)
    if rng.random() < 0.3:
        return rng.integers(len(actions), size=len(points))
    level = points @ rng.choice([-2.0, -1.0, 0.5, 1.0, 1.0, 2.0, 3.0], size=points.shape[1])
    top = rng.uniform(level.min() + min(actions), level.max() + max(actions))
    return np.clip(np.searchsorted(actions, top - level, side="right") - 1, 0, len(actions) - 1)


def find_faults(seed: int) -> list[str]:
    """Sizes that are called needed and are not, and rules smaller than any can be."""
    return check_model(seed)[1]


def check_model(seed: int) -> tuple[TinyModel, list[str], list[str]]:
    """A model, its faults, and the classes with a proven size that was checked."""
    rng, tiny = np.random.default_rng(seed + 10**9), draw_model(seed)
    loss, worst = float(rng.choice(LOSS_LIMITS)), bool(rng.random() < 0.3)
    losses, scale = tiny.losses(worst), max(1.0, float(np.abs(tiny.values).max()))
    limit = loss * scale
    below = limit * (1 - 1e-7) if loss else 1e-3 * LOSS_TOLERANCE * scale
    above = limit * (1 + 1e-7) + LOSS_TOLERANCE * scale
    certain, possible = tiny.tables[losses <= below], tiny.tables[losses <= above]
    sizes, faults, proven = Sizes(tiny), [], []
    for outcome in list_outcomes(seed, tiny, limit, worst):
        proven += [outcome.kind] if states_bound(outcome) else []
        faults += check_needed_size(outcome, sizes, certain)
        faults += check_found_size(outcome, sizes, possible)
    return tiny, faults, proven


def list_outcomes(seed: int, tiny: TinyModel, limit: float, worst: bool) -> list:
    """Outcomes of ``least_size`` in all classes; for some seeds, of ``compress`` too."""
    solution = ts.solve(tiny.mdp)
    options = {"loss": limit, "start": tiny.start, "worst": worst, "relative": False}
    outcomes = [ts.least_size(solution, rule_class=kind, **options) for kind in CLASSES]
    number = seed // len(CRITERIA)
    if number % 10 == 0:
        classes = None if number % 50 == 0 else CLASSES
        outcomes += ts.compress(solution, classes=classes, **options).outcomes
        ts.frontier(solution, 8, start=tiny.start, worst=worst, relative=False, classes=classes)
    return outcomes


def states_bound(outcome) -> bool:
    """Whether an outcome states that a size is needed, or that no rule exists."""
    return outcome.size_needed > 1 or excludes_all(outcome)


def excludes_all(outcome) -> bool:
    return "no rule of this class" in outcome.explanation


def check_needed_size(outcome, sizes: Sizes, tables: np.ndarray) -> list[str]:
    """A needed size that is larger than the least size of tables that certainly qualify."""
    kind, needed = outcome.kind, outcome.size_needed
    if kind not in sizes.of:
        return [f"{kind}: {needed} needed, of a class that proves nothing"] if needed > 1 else []
    if not states_bound(outcome):
        return []
    needed = np.inf if excludes_all(outcome) else needed
    least = sizes.least(kind, tables, needed)
    if least >= needed:
        return []
    return [f"{kind}: {outcome.size_needed} needed ({outcome.explanation}), but {least:g} suffice"]


def check_found_size(outcome, sizes: Sizes, tables: np.ndarray) -> list[str]:
    """A found size that is smaller than the least size of tables that possibly qualify."""
    kind, size = outcome.kind, outcome.size
    if size is None or kind not in sizes.of or kind in SEARCHED_CLASSES:
        return []
    least = sizes.least(kind, tables, size + 1)
    return [] if size >= least else [f"{kind}: {size} found, but {least:g} are needed"]


def list_order_shapes(size: int) -> Iterator[tuple[bool, bool, int]]:
    """(slope, lots, how many of a reorder point and a cap) of order-up-to rules of a size."""
    for sloped, lots in itertools.product((False, True), repeat=2):
        n_extra = size - 1 - sloped - lots
        if n_extra in (0, 1) or (n_extra == 2 and not sloped and not lots):
            yield sloped, lots, n_extra


class Sizes:
    """The least sizes at which classes have the tables of a model."""

    def __init__(self, tiny: TinyModel) -> None:
        self.tiny, self.shape = tiny, tiny.shape
        self.numeric = [k for k, v in enumerate(tiny.axes.values()) if not isinstance(v[0], str)]
        self.order = [
            np.arange(len(v)) if isinstance(v[0], str) else np.argsort(v)
            for v in tiny.axes.values()
        ]
        values = [
            np.zeros(len(v)) if isinstance(v[0], str) else np.array(v, float)
            for v in tiny.axes.values()
        ]
        mesh = np.meshgrid(*values, indexing="ij")
        self.points = np.stack([m.ravel() for m in mesh], axis=-1)
        self.of: dict[str, Callable[[np.ndarray, float], float]] = {
            "one action": lambda table, _: 1 if len(np.unique(table)) == 1 else np.inf,
            "order up to": self.order_up_to,
            "linear index": self.linear_index,
            "run-length table": self.run_length,
            "staircase": self.staircase,
            "axis tree": lambda table, _: 3 * count_leaves(self.rising(table)) - 2,
            "monotone surface": self.surface,
        }

    def least(self, kind: str, tables: np.ndarray, below: float) -> float:
        """The least size of these tables in a class; at times any from ``below`` on."""
        return min((self.of[kind](table, below) for table in tables), default=np.inf)

    def rising(self, table: np.ndarray) -> np.ndarray:
        """A table over the grid with every axis in rising order."""
        return table.reshape(self.shape)[np.ix_(*self.order)]

    def run_length(self, table: np.ndarray, _: float) -> float:
        listed, axes = table.reshape(self.shape), range(len(self.shape))
        flat = (listed.transpose(order).ravel() for order in itertools.permutations(axes))
        return 2 * min(1 + int((np.diff(t) != 0).sum()) for t in flat)

    def surface(self, table: np.ndarray, _: float) -> float:
        steps = (np.diff(self.rising(table), axis=k) for k in range(len(self.shape)))
        return 1 if all((s >= 0).all() or (s <= 0).all() for s in steps) else np.inf

    def staircase(self, table: np.ndarray, _: float) -> float:
        best, whole = np.inf, self.rising(table)
        for across, along in itertools.permutations(range(len(self.shape)), 2):
            if along not in self.numeric:
                continue
            rows = np.moveaxis(whole, (across, along), (0, 1))
            rows = rows.reshape(*rows.shape[:2], -1)
            if (rows != rows[..., :1]).any():
                continue
            rows = rows[..., 0]
            steps = np.diff(rows, axis=1)
            if ((steps >= 0).all(axis=1) | (steps <= 0).all(axis=1)).all():
                bands, cuts = 1 + int((np.diff(rows, axis=0) != 0).any(axis=1).sum()), rows.max()
                best = min(best, bands - 1 + bands * max(int(cuts), 1))
        return best

    def linear_index(self, table: np.ndarray, below: float) -> float:
        from_last = len(self.tiny.actions) - 1 - int(table.min())
        cuts = max(min(int(table.max()), from_last), 1)
        apart = table[:, None] < table[None, :]
        varying = [k for k in self.numeric if self.shape[k] > 1]
        subsets = [
            axes for d in range(1, len(varying) + 1) for axes in itertools.combinations(varying, d)
        ]
        if any((apart.ravel() @ ~self.follows_sums(axes) == 0).any() for axes in subsets):
            return cuts  # sums and differences need no weights
        if 1 + cuts >= below:
            return below
        for axes in subsets[len(varying) :]:
            is_plane = len(axes) == 2
            if is_plane and (apart.ravel() @ ~self.follows(axes) == 0).any():
                return 1 + cuts
            if not is_plane and self.separable(axes, apart):
                return 1 + cuts  # or 2, if no other weight may be 1 or -1
        return np.inf

    @cache  # noqa: B019
    def follows_sums(self, axes: tuple[int, ...]) -> np.ndarray:
        """(S S, D) whether one state's index is less than another's, for sums and differences."""
        signs = itertools.product((1.0, -1.0), repeat=len(axes))
        return self.compare(axes, np.array(list(signs)))

    @cache  # noqa: B019
    def follows(self, axes: tuple[int, int]) -> np.ndarray:
        """(S S, D) the same for every direction of two axes."""
        points = self.points[:, axes]
        between = (points[:, None] - points[None]).reshape(-1, 2)
        between = between[np.abs(between).max(axis=1) > 1e-9]
        angles = np.sort(np.arctan2(between[:, 0], -between[:, 1]))
        angles = angles[np.append(np.diff(angles) > 1e-9, True)]
        middle = (angles + np.append(angles[1:], angles[0] + 2 * np.pi)) / 2
        return self.compare(axes, np.stack([np.cos(middle), np.sin(middle)], axis=-1))

    def compare(self, axes: tuple[int, ...], ways: np.ndarray) -> np.ndarray:
        index = self.points[:, axes] @ ways.T
        return (index[:, None] < index[None] - 1e-12).reshape(-1, len(ways))

    def separable(self, axes: tuple[int, ...], apart: np.ndarray) -> bool:
        """Whether some index of these axes is less wherever it is to be."""
        points = self.points[:, axes]
        low, high = np.nonzero(apart)
        if not len(low):
            return True
        program = linprog(
            np.zeros(len(axes)),
            A_ub=points[low] - points[high],
            b_ub=-np.ones(len(low)),
            bounds=[(None, None)] * len(axes),
        )
        return program.status == 0

    def order_up_to(self, table: np.ndarray, below: float) -> float:
        code = int(table @ self.powers)
        return next((n for n in range(1, 5) if n < below and code in self.list_codes(n)), np.inf)

    @property
    def powers(self) -> np.ndarray:
        return len(self.tiny.actions) ** np.arange(len(self.points))

    @cache  # noqa: B019
    def list_codes(self, size: int) -> frozenset[int]:
        """Codes of the tables that order-up-to rules of a size have."""
        codes: set[int] = set()
        varying = [k for k in self.numeric if self.shape[k] > 1] or self.numeric[:1]
        for sloped, lots, n_extra in list_order_shapes(size):
            for level in self.levels(varying, sloped):
                codes |= self.list_order_forms(level, lots, n_extra)
                if n_extra == 1 and not lots:
                    codes |= self.quantities(level)
        return frozenset(codes)

    def list_order_forms(self, level: np.ndarray, lots: bool, n_extra: int) -> set[int]:
        """Codes of orders up to a level, with ``n_extra`` of a reorder point and a cap."""
        codes: set[int] = set()
        for allowed in self.list_allowed_orders(lots):
            if n_extra < 2:
                codes |= self.forms(level, allowed, bool(n_extra))
            for cap in range(2, len(allowed)) if n_extra else ():
                codes |= self.forms(level, allowed[:cap], n_extra == 2)
        return codes

    def list_allowed_orders(self, lots: bool) -> Iterator[np.ndarray]:
        """Action indices: all, or the least order and the multiples of each lot."""
        actions = np.array(self.tiny.actions, float)
        if not lots:
            yield np.arange(len(actions))
            return
        for lot in actions[actions > 0]:
            whole = np.abs(actions / lot - np.rint(actions / lot)) < 1e-9
            yield np.flatnonzero(whole | (actions == actions.min()))

    def quantities(self, level: np.ndarray) -> set[int]:
        """Codes of (r, Q)."""
        orders = range(1, len(self.tiny.actions))
        parts = [np.where(level <= r + 1e-9, q, 0) for r in np.unique(level) for q in orders]
        return set((np.array(parts) @ self.powers).tolist())

    def levels(self, axes: list[int], sloped: bool) -> Iterator[np.ndarray]:
        """(S,) levels: sums of axes, and with every slope of another that makes a difference."""
        actions = np.array(self.tiny.actions, float)
        differ = (actions[:, None] - actions).ravel()
        for n in range(1, len(axes) + 1):
            for summed in itertools.combinations(axes, n):
                level = self.points[:, summed].sum(axis=1)
                if not sloped:
                    yield level
                    continue
                for other in (k for k in self.numeric if k not in summed):
                    x = self.points[:, other]
                    rises, far = (level[:, None] - level).ravel(), (x[:, None] - x).ravel()
                    rises, far = rises[np.abs(far) > 1e-9], far[np.abs(far) > 1e-9]
                    slopes = np.unique(np.round((rises[:, None] + differ) / far[:, None], 9))
                    ends = np.concatenate([slopes[:1] - 1, slopes, slopes[-1:] + 1])
                    for slope in (ends[1:] + ends[:-1]) / 2:
                        yield level + slope * x

    def forms(self, level: np.ndarray, allowed: np.ndarray, reorder: bool) -> set[int]:
        orders = np.array(self.tiny.actions, float)[allowed]
        changes = np.unique(np.round((level[:, None] + orders).ravel(), 9))
        tops = np.concatenate([changes[:1] - 1, (changes[1:] + changes[:-1]) / 2, changes[-1:] + 1])
        missing = tops[:, None] - level
        last = len(orders) - 1
        choices = [
            allowed[np.clip(np.searchsorted(orders, missing, side="right") - 1, 0, last)],
            allowed[np.clip(np.searchsorted(orders, missing, side="left"), 0, last)],
        ]
        tables = np.concatenate(choices)
        if reorder:
            parts = [np.where(level <= s + 1e-9, tables, allowed[0]) for s in np.unique(level)]
            tables = np.concatenate(parts)
        return set((tables @ self.powers).tolist())


def count_leaves(table: np.ndarray) -> int:
    """Leaves of the smallest tree that is a table."""
    return _count_leaves(table.shape, table.astype(np.int8).tobytes())


@cache
def _count_leaves(shape: tuple[int, ...], content: bytes) -> int:
    table = np.frombuffer(content, dtype=np.int8).reshape(shape)
    if (table == table.flat[0]).all():
        return 1
    cuts = [(axis, at) for axis in range(table.ndim) for at in range(1, shape[axis])]
    return min(
        sum(count_leaves(np.ascontiguousarray(half)) for half in np.split(table, [at], axis))
        for axis, at in cuts
    )
