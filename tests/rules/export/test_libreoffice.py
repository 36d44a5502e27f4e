"""Workbooks do in LibreOffice what the policy does, in every state and off the grid."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import openpyxl
import pytest
from support.exports import (
    CASES,
    GRID,
    HOSTILE,
    draw_program,
    find_expected_actions,
    list_off_grid_rows,
    list_states,
    make_rule,
)
from support.libreoffice import MISSING, SOFFICE, Sheets, calculate, read_decisions, save_rows

import tessella as ts
from tessella.mdp.rule_tree import LabelSplit, Leaf, RuleTree
from tessella.rules.export.export_context import ExportContext
from tessella.rules.export.spreadsheet import Workbook

pytestmark = pytest.mark.skipif(SOFFICE is None, reason=MISSING)

AXES = {
    "tenths": np.arange(-7, 8) * 0.1,
    "shifted": 0.05 + np.arange(4) * 0.1,
    "thirds": np.arange(-4, 5) / 3,
    "whole": range(-3, 4),
    "uneven": [-2.5, -1, 3 * 0.1, 2 / 3, 7, 1e6],
    "large": 10**9 + np.arange(4),
    "wide": np.logspace(-5, 5, 6),
    "two": [-0.1, 3 * 0.1],
    "one": [-1.1],
    "one_large": [-799_999.95],
}
NEVER_NUMBERS = ("three", "", None)


def random_policy(axis: str) -> ts.Policy:
    """A table over an awkward axis and a text axis, with texts as actions."""
    grid = ts.StateGrid({axis: AXES[axis], "label": ["a", "A", " a ", "-1", "=1+1"]})
    table = np.random.default_rng(len(axis)).integers(0, 3, grid.shape)
    return ts.Policy.from_table(grid, (-1, 2 / 3, "Stop"), table)


def hostile() -> ts.Policy:
    """Labels and actions of any text that a cell can hold."""
    texts = tuple(text for text in HOSTILE if "\r" not in text)
    root = LabelSplit("label", texts[::2], Leaf(3), Leaf(len(texts) - 1))
    return make_rule({"label": texts}, texts, root, 2)


def drawn_rule(seed: int) -> ts.Rule:
    return ts.Rule(GRID, (0, 1, 2, 3), RuleTree(GRID, draw_program(np.random.default_rng(seed)), 9))


POLICIES = {name: CASES[name] for name in ("text_axis", "linear", "four_axes", "constant")}
POLICIES |= {name: random_policy(name) for name in AXES}
POLICIES |= {"hostile": hostile()} | {f"drawn{seed}": drawn_rule(seed) for seed in range(10)}
DRAFTS = {
    (name, off_grid): ExportContext(policy, "rule", off_grid)
    for name, policy in POLICIES.items()
    for off_grid in ("clamp", "refuse")
}
EXPORTED = [key for key in DRAFTS if not key[0].startswith("drawn")]


def asked(policy: ts.Policy) -> dict[str, list]:
    """All states, and rows off the grid."""
    rows, beyond = list_states(policy), list_off_grid_rows(policy, NEVER_NUMBERS)
    return {axis: [*rows[axis], *beyond[axis]] for axis in rows}


@dataclass(frozen=True)
class Calculated:
    """What LibreOffice made of workbooks."""

    rows: dict[tuple[str, str], np.ndarray]  # decisions for ``asked``
    exported: dict[tuple[str, str], Sheets]
    broken: Sheets  # an export with an error in one cell


@pytest.fixture(scope="module")
def calculated(tmp_path_factory) -> Calculated:
    """All workbooks in one go: most of the time goes into the start."""
    folder = tmp_path_factory.mktemp("libreoffice")
    cases = [(draft, asked(draft.policy)) for draft in DRAFTS.values()]
    save_rows(cases, folder / "rows.xlsx")
    paths = [folder / f"{name}-{off_grid}.xlsx" for name, off_grid in EXPORTED]
    for key, path in zip(EXPORTED, paths, strict=True):
        path.write_bytes(Workbook().write(DRAFTS[key]))
    book = openpyxl.load_workbook(folder / "text_axis-clamp.xlsx")
    book["check"]["C2"].value = "=NA()"
    book.save(folder / "broken.xlsx")
    broken, rows, *sheets = calculate(
        [folder / "broken.xlsx", folder / "rows.xlsx", *paths], folder
    )
    decided = dict(zip(DRAFTS, read_decisions(cases, rows), strict=True))
    return Calculated(decided, dict(zip(EXPORTED, sheets, strict=True)), broken)


@pytest.mark.parametrize(("name", "off_grid"), DRAFTS)
def test_a_formula_decides_what_the_policy_decides_on_the_grid_and_off_it(
    calculated, name, off_grid
):
    policy = POLICIES[name]
    expected = find_expected_actions(policy, asked(policy), off_grid)
    assert calculated.rows[name, off_grid].tolist() == expected.tolist()
    assert -1 in expected
    assert np.array_equal(expected[: policy.grid.size], policy.table.ravel())


@pytest.mark.parametrize(("name", "off_grid"), EXPORTED)
def test_the_sheet_that_checks_finds_every_state_the_same(calculated, name, off_grid):
    sheets = calculated.exported[name, off_grid]
    head, *rows = sheets["check"]
    same = head.index("same")
    assert [row[same] for row in rows] == [True] * POLICIES[name].grid.size
    assert head[same + 1] == 0
    assert sheets["rule"][5][0] == "0 states on the sheet 'check' differ"


def test_a_state_whose_formula_is_an_error_counts_as_different(calculated):
    assert calculated.broken["rule"][5][0] == "1 states on the sheet 'check' differ"
