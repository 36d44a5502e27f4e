"""Policies that are awkward to write in some language, small enough to be run in all of them."""

from __future__ import annotations

import shutil
from itertools import product

import numpy as np
import pytest

import tessella as ts
from tessella.mdp.actions import VectorAction
from tessella.mdp.rule_tree import Exceptions, LabelSplit, Leaf, Lookup, Node, RuleTree, Split
from tessella.rules.export.c99 import C99
from tessella.rules.export.code import CompiledFormat
from tessella.rules.export.export_context import ExportFormat

FACTS = {
    "model": 'shop */ "; DROP TABLE t; --',
    "fingerprint": "0123abcd",
    "mean_loss": 0.125,
    "relative_loss": 0.0025,
    "worst_loss": 0.5,
    "loss_limit": 0.01,
}
HOSTILE = (
    'a"b',
    "it's",
    "*/ int x; /*",
    "-- ; DROP TABLE states;",
    "line\nbreak\r\n\tand tab",
    "back\\slash\\",
    "=1+1",
    "??/ ??=",
    "%s %d %n {0} ${x}",
    "größe 数 \U0001f600",
    "\u202eright",
    " spaces ",
    "NULL",
    "Case",
    "case",
)


def make_rule(axes, actions, root: Node, size: int, action_name: str = "order") -> ts.Rule:
    grid = ts.StateGrid(axes)
    about = {"kind": "own", "loss_target": "1 % of the mean", "facts": FACTS}
    return ts.Rule(grid, actions, RuleTree(grid, root, size), "own", action_name, **about)


def make_split(weights, cuts, actions) -> Split:
    return Split(tuple(weights.items()), tuple(cuts), tuple(map(Leaf, actions)))


def make_text_axis() -> ts.Rule:
    """Every kind of node, on a text axis and one of numbers."""
    axes = {"stock": range(5), "season": ["dry", "wet", "cold"]}
    table = Lookup(("season", "stock"), (0, 7, 12), (0, 1, 2))
    steps = make_split({"stock": 1.0}, (1.5, 2.5), (0, 1, 2))
    exceptions = Exceptions(((3, "wet"), (0, "wet")), (2, 1), table)
    return make_rule(
        axes, (0, 4.5, -8), LabelSplit("season", ("dry", "cold"), steps, exceptions), 9
    )


def make_linear() -> ts.Rule:
    """Actions of two components by a weighted sum with cuts that are no whole numbers."""
    axes = {"stock": np.linspace(-1, 2, 7), "regime": [3, 1, 2, 0], "fixed": [7]}
    actions = tuple(VectorAction(("fast", "slow"), v) for v in ((0, "no"), (0.5, "no"), (1, "yes")))
    cuts = (-5.0, -0.63, -0.63, 0.721, 9.0)
    split = make_split({"stock": 1.1, "regime": -0.44}, cuts, (0, 1, 2, 0, 2, 1))
    return make_rule(axes, actions, split, 5)


def make_four_axes() -> ts.Policy:
    """A table without any order, of a policy that is no rule."""
    tenths = [0.1, 0.2, 0.30000000000000004]
    grid = ts.StateGrid(a=range(3), b=tenths, c=["x", "y"], d=[0, 5])
    table = np.random.default_rng(4).integers(0, 3, grid.shape)
    return ts.Policy.from_table(grid, ("none", "some", "all"), table, action_name="send")


def make_named() -> ts.Rule:
    """Axes called by keywords of all languages, and labels and actions by anything."""
    words = ("select", "int", "lambda", "größe", "Total", "total", "ACTIONS")
    axes = {"label": HOSTILE} | {word: range(2) for word in words}
    split = make_split(dict.fromkeys(words, 1.0), (1.5, 3.5, 6.5), (0, 4, 9, 14))
    inside = LabelSplit("label", HOSTILE[5:7], Leaf(11), split)
    root = LabelSplit(
        "label", HOSTILE[::2], inside, Lookup(("label", "größe"), (0, 6, 13), (1, 2, 3))
    )
    return make_rule(axes, HOSTILE, root, 9, 'or"der */ -- \n')


def make_constant() -> ts.Rule:
    return make_rule({"stock": range(3)}, (1, 2), Leaf(1), 1)


def make_two_suppliers() -> ts.Rule:
    """A capped dual index: the second component counts the first."""
    grid = ts.StateGrid(stock=range(-2, 6), due=range(4))
    orders = tuple(VectorAction(("fast", "slow"), pair) for pair in product(range(4), repeat=2))
    stock, due = grid.points.T
    fast = np.clip(2 - stock, 0, 3)
    slow = np.clip(6 - stock - fast - due, 0, 2)
    by_state = np.abs(np.stack([fast, slow], axis=1)[:, None] - np.array(orders)).sum(axis=2)
    *_, fitted = ts.OrderUpTo().fit(ts.Costs(grid, orders, by_state), 3, 0.0)
    assert (fitted.size, fitted.cost) == (3, 0.0)
    axes = dict(zip(grid.axes, grid.values, strict=True))
    return make_rule(axes, orders, fitted.root, fitted.size, "orders")


CASES = {
    "text_axis": make_text_axis(),
    "linear": make_linear(),
    "four_axes": make_four_axes(),
    "named": make_named(),
    "constant": make_constant(),
    "two_suppliers": make_two_suppliers(),
}


def require_compiler(file_format: ExportFormat) -> None:
    """Skip the test where an optional compiler is not installed; a C compiler is no option."""
    is_optional = isinstance(file_format, CompiledFormat) and not isinstance(file_format, C99)
    if is_optional and not any(map(shutil.which, file_format.compilers)):
        pytest.skip(f"no {file_format.name} compiler ({' or '.join(file_format.compilers)})")


def list_states(policy: ts.Policy) -> dict[str, list]:
    """All states, as rows of values."""
    coordinates = policy.grid.coordinates(np.arange(policy.grid.size))
    return {name: values.tolist() for name, values in coordinates.items()}


def list_off_grid_rows(policy: ts.Policy, odd: tuple) -> dict[str, list]:
    """Rows off the grid: axes of numbers at or beyond their ends or between two values; and one
    axis at a time with an odd value, or a label that it does not have."""
    grid, rows, outside = policy.grid, [], {}
    middle = {n: v[len(v) // 2].item() for n, v in zip(grid.axes, grid.values, strict=True)}
    for name, values in zip(grid.axes, grid.values, strict=True):
        if values.dtype.kind == "U":
            rows += [middle | {name: "no such label"}]
        else:
            low, high = values.min().item(), values.max().item()
            step = np.diff(np.sort(values))[:1].sum().item() or 1.0
            outside[name] = [high, low - 7.3, high + 1e3, low + 0.3 * step, low + 0.7 * step]
            rows += [middle | {name: x} for x in odd]
    rows += [middle | dict(zip(outside, row, strict=True)) for row in product(*outside.values())]
    return {name: [row[name] for row in rows] for name in grid.axes}


def find_expected_actions(policy: ts.Policy, rows: dict[str, list], off_grid: str) -> np.ndarray:
    """What the policy says about rows, by itself: -1 where a row is refused."""
    grid, points = policy.grid, []
    is_rejected = np.zeros(len(rows[grid.axes[0]]), dtype=bool)
    for axis, name in enumerate(grid.axes):
        if grid.values[axis].dtype.kind == "U":
            positions = [
                [*grid.values[axis]].index(x) if x in grid.values[axis] else -1 for x in rows[name]
            ]
            is_rejected |= np.array(positions) < 0
            points.append(np.maximum(positions, 0.0))
        else:
            numbers = [v if isinstance(v, int | float) else np.nan for v in rows[name]]
            x = np.array(numbers, dtype=float)
            is_rejected |= np.isnan(x)
            is_rejected |= (off_grid == "refuse") & ~np.isin(x, grid.values[axis])
            ends = grid.values[axis].min(), grid.values[axis].max()
            points.append(np.clip(np.nan_to_num(x, posinf=np.inf, neginf=-np.inf), *ends))
    return np.where(is_rejected, -1, policy.act(np.stack(points, axis=-1)))


GRID = ts.StateGrid(x=[4, 0, 1.5, -2], label=["a", "b", "c"], y=range(3))


def draw_program(rng: np.random.Generator, depth: int = 3) -> Node:
    """A random program on ``GRID``, with cuts that no state lies on."""
    kind = rng.integers(0, 5) if depth else 0
    children = [draw_program(rng, depth - 1) for _ in range(3)] if depth else []
    if kind == 1:
        weights = ({"x": 1.0}, {"y": -2.5}, {"x": 0.7, "y": -1.3}, {"y": 1.0})[rng.integers(0, 4)]
        cuts = np.sort(rng.integers(-9, 9, 2) + 0.123)
        return Split(tuple(weights.items()), tuple(cuts.tolist()), tuple(children))
    if kind == 2:
        labels = tuple(np.array(["a", "b", "c"])[rng.random(3) < 0.5].tolist())
        return LabelSplit("label", labels, *children[:2])
    if kind == 3:
        states = rng.choice(GRID.size, 4, replace=False)
        places = tuple(zip(*(v.tolist() for v in GRID.coordinates(states).values()), strict=True))
        return Exceptions(places, tuple(rng.integers(0, 4, 4).tolist()), children[0])
    if kind == 4:
        axes = tuple(rng.permutation(GRID.axes)[: rng.integers(1, 4)].tolist())
        size = int(np.prod([GRID.shape[GRID.axis(name)] for name in axes]))
        starts = (0, *sorted(rng.choice(np.arange(1, size), 2, replace=False).tolist()))
        return Lookup(axes, starts, tuple(rng.integers(0, 4, 3).tolist()))
    return Leaf(int(rng.integers(0, 4)))
