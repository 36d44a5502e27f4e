"""The kinds of random cases: for each, a function from a seed to the faults of its case."""

from __future__ import annotations

import contextlib
import io
import json
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from itertools import product
from pathlib import Path

import numpy as np
from support import exact_checks, gains, nearly_decomposable, totals
from support.alterations import alter_leaf
from support.awkward import Case, make_numbered_case
from support.criteria import BUILDERS as CRITERIA_BUILDERS
from support.criteria import find_contradictions as find_solution_faults
from support.draws import Draws
from support.exact import World, read_stages
from support.exports import (
    GRID,
    draw_program,
    find_expected_actions,
    list_off_grid_rows,
    list_states,
)
from support.forgeries import LIES, forge, shift_values
from support.hostile import find_faults as check_hostile_files
from support.libreoffice import SOFFICE, calculate, read_decisions, save_rows
from support.listed import find_faults as check_listed
from support.occupation_program import find_faults as check_constraints
from support.random_stages import SEEDS_PER_STRUCTURE, make_staged_case
from support.routes import ROUTES, plan_by
from support.sliced_models import find_faults as check_slices
from support.small_rules import find_faults as check_rules
from support.tiny_proofs import find_faults as check_proofs
from support.truth import draw_case, find_contradictions

import tessella as ts
from soak.studies import check_killed_study
from tessella.checker import check
from tessella.mdp.rule_tree import RuleTree
from tessella.rules.export.c99 import C99
from tessella.rules.export.code import CompiledFormat
from tessella.rules.export.export_context import ExportContext, ToolMissing
from tessella.rules.export.python_code import BarePython
from tessella.rules.export.rust import Rust
from tessella.rules.export.sql import Sql


@dataclass(frozen=True)
class Kind:
    """Cases of one kind.

    Attributes:
        faults: seed -> descriptions of what is wrong.
        cases: how many one process runs at most.
    """

    faults: Callable[[int], list[str]]
    cases: int


def check_staged(seed: int, route: str) -> list[str]:
    """Random stages, compared with dense arrays and fractions; some by another method."""
    case = make_staged_case(seed)
    messages = exact_checks.check_against_dense(case, route)
    methods = [None, ts.PolicyIteration(), ts.ModifiedPolicyIteration(), ts.ValueIteration()]
    method = methods[seed // SEEDS_PER_STRUCTURE % len(methods)]
    if method is not None and case.mdp.discount <= 0.99:
        faults = exact_checks.check_against_dense(case, route, method)
        messages += [f"{type(method).__name__}: {fault}" for fault in faults]
    return messages


def check_building(seed: int, route: str) -> list[str]:
    """Every way of building: optimum and policy value in rational arithmetic."""
    case = make_numbered_case(seed)
    faults = exact_checks.check_optimum(case, route) + exact_checks.check_evaluation(case, route)
    return [f"{case}: {fault}" for fault in faults]


def check_certificates(seed: int, route: str) -> list[str]:
    """Every way of building: the enclosures of a certificate in rational arithmetic."""
    case = make_numbered_case(seed)
    return [f"{case}: {fault}" for fault in exact_checks.check_certificate(case, route)]


def check_checker(seed: int, route: str) -> list[str]:
    """Honest certificates of any model pass; false ones of a plain model do not."""
    rng = np.random.default_rng(seed)
    case = make_numbered_case(seed)
    with tempfile.TemporaryDirectory() as folder:
        files = Files(Path(folder))
        solution = ts.solve(case.mdp, plan=plan_by(case.mdp, route))
        messages = files.check_honest(solution, exact_checks.draw_policy(case, rng))
        solution = ts.solve(draw_plain_model(rng))
        worst = np.where(np.isfinite(solution.q), solution.q, np.inf).argmin(axis=-1)
        messages += files.check_honest(solution, np.where(rng.random(len(worst)) < 0.7, worst, 0))
        return messages + files.check_forgeries(solution, rng)


def check_lies(seed: int) -> list[str]:
    """Consistent certificates with one lie: those that pass are true in rational arithmetic."""
    rng = np.random.default_rng(seed)
    solution, policy, start, truth = draw_case(seed)
    error = float(rng.choice([0.0, 1e-12, 1e-9, 1e-3, 0.5])) * np.abs(solution.value).max()
    wrong = shift_values(solution, error * rng.uniform(-1, 1, solution.value.shape))
    messages = []
    with tempfile.TemporaryDirectory() as folder:
        files = Files(Path(folder))
        messages += files.check_honest(wrong, policy, start)
        for lie in LIES:
            factor = 1 - 10.0 ** rng.uniform(-14, 0)
            forged = forge(wrong, policy, start, lie, factor)
            if forged is None:
                continue
            forged.save(files.folder / "certificate.json")
            contradicted = find_contradictions(forged, truth)
            if files.run_checker()[0] == 0 and contradicted:
                messages.append(f"{lie} by {factor!r} holds and is false: {contradicted}")
    return messages


def check_criteria(seed: int) -> list[str]:
    """Finite horizons, totals and averages: solutions in rational arithmetic."""
    mdp = CRITERIA_BUILDERS[seed % len(CRITERIA_BUILDERS)](seed // len(CRITERIA_BUILDERS))
    return find_solution_faults(mdp, np.random.default_rng(seed))


def check_gains(seed: int) -> list[str]:
    """Averages: certificates that pass are true from every state; the honest one passes."""
    rng, mdp = np.random.default_rng(seed), gains.draw_model(seed)
    truth, table = gains.Truth(mdp), gains.draw_policy(mdp, seed)
    scale = float(rng.choice([0.0, 1e-6, 1.0, 1e6]))
    certificates = list(gains.make_certificates(mdp, truth, table, scale, seed))
    with contextlib.suppress(ts.ModelError, ts.NotConverged):  # there may be several averages
        certificates.append((ts.certify(ts.solve(mdp), table), ""))
    messages = []
    with tempfile.TemporaryDirectory() as folder:
        files = Files(Path(folder))
        mdp.save(files.folder / "model.nc")
        for certificate, lie in certificates:
            certificate.save(files.folder / "certificate.json")
            messages += files.check_average(truth, lie)
        honest = json.loads((files.folder / "certificate.json").read_text())
        for _ in range(10):
            altered = alter_leaf(json.loads(json.dumps(honest)), None, rng)
            (files.folder / "certificate.json").write_text(json.dumps(altered))
            messages += files.check_average(truth, None)
    return messages


def check_totals(seed: int) -> list[str]:
    """Totals, in rational arithmetic; the honest certificate passes, and no false one does."""
    rng, mdp = np.random.default_rng(seed), totals.draw_model(seed)
    solution, table = ts.solve(mdp), totals.draw_policy(mdp, rng)
    truth = totals.Truth(solution)
    messages = find_solution_faults(mdp, rng) + truth.check_evaluation(table)
    ends = truth.evaluate(table) is not None
    try:
        honest = ts.certify(solution, table if ends else solution.policy)
    except ts.NotConverged as error:  # waiting may cost less than a backup of floats shows
        waits = totals.BUILDERS[seed % len(totals.BUILDERS)] is totals.build_waiting
        return messages if waits else [*messages, f"not certified: {error}"]
    with tempfile.TemporaryDirectory() as folder:
        files = Files(Path(folder))
        mdp.save(files.folder / "model.nc")
        for certificate in (*totals.forge_certificates(honest, rng), honest):
            certificate.save(files.folder / "certificate.json")
            messages += files.check_total(truth, is_honest=certificate is honest)
        document = json.loads((files.folder / "certificate.json").read_text())
        for _ in range(10):
            altered = alter_leaf(json.loads(json.dumps(document)), solution, rng)
            (files.folder / "certificate.json").write_text(json.dumps(altered))
            messages += files.check_total(truth, is_honest=False)
    return messages


def check_decomposable(seed: int) -> list[str]:
    """Averages of nearly decomposable chains, in rational arithmetic."""
    return nearly_decomposable.find_faults(seed)


@dataclass(frozen=True)
class Files:
    """A certificate and its model in a folder, for the checker."""

    folder: Path

    def check_honest(self, solution: ts.Solution, policy: np.ndarray, start=None) -> list[str]:
        solution.mdp.save(self.folder / "model.nc")
        table = policy.reshape(solution.mdp.grid.shape)
        ts.certify(solution, table, start).save(self.folder / "certificate.json")
        status, output = self.run_checker()
        return [] if status == 0 else [f"an honest certificate is rejected: {output}"]

    def check_forgeries(self, solution: ts.Solution, rng: np.random.Generator) -> list[str]:
        """Altered statements of the certificate that pass."""
        file = self.folder / "certificate.json"
        honest, messages = file.read_text(), []
        for _ in range(10):
            content = alter_leaf(json.loads(honest), solution, rng)
            file.write_text(json.dumps(content))
            if self.run_checker()[0] != 1:
                difference = describe_difference(json.loads(honest), content)
                messages.append(f"a false certificate passes: {difference}")
        file.write_text(honest)
        return messages

    def check_average(self, truth: gains.Truth, lie: str | None) -> list[str]:
        """Faults of the file of an average; ``lie`` is "" if honest, None if not known."""
        status, output = self.run_checker()
        if lie is not None and (status == 0) == bool(lie):
            return [f"{lie or 'an honest certificate'}: {output}"]
        if status:
            return []
        loaded = ts.Certificate.load(self.folder / "certificate.json")
        false_figures = gains.find_contradictions(loaded, truth)
        return [f"{output}, and {false_figures} are false"] if false_figures else []

    def check_total(self, truth: totals.Truth, is_honest: bool) -> list[str]:
        """Faults of the file of a total: an honest one is rejected, or a false one passes."""
        status, output = self.run_checker()
        if status:
            return [f"an honest certificate is rejected: {output}"] if is_honest else []
        false_figures = truth.find_contradictions(
            ts.Certificate.load(self.folder / "certificate.json")
        )
        return [f"{output}, and {false_figures} are false"] if false_figures else []

    def run_checker(self) -> tuple[int, str]:
        with contextlib.redirect_stdout(io.StringIO()) as output:
            status = check.main([str(self.folder / n) for n in ("model.nc", "certificate.json")])
        return status, output.getvalue().strip()


def describe_difference(old, new, path: str = "") -> str:
    """The first difference of two documents."""
    if isinstance(old, dict | list) and type(old) is type(new) and len(old) == len(new):
        for name in old if isinstance(old, dict) else range(len(old)):
            if name in new or isinstance(new, list):
                difference = describe_difference(old[name], new[name], f"{path}.{name}".lstrip("."))
                if difference:
                    return difference
    return "" if old == new else f"{path}: {old!r} became {new!r}"


def draw_plain_model(rng: np.random.Generator) -> ts.MDP:
    """A model without ties, with a few infeasible actions."""
    n, n_actions = 6, 3
    feasible = rng.random((n, n_actions)) < 0.8
    feasible[:, 0], feasible[0] = True, True
    return ts.MDP.from_arrays(
        rng.dirichlet(np.ones(n), (n_actions, n)),
        rng.normal(size=(n, n_actions)),
        float(rng.choice([0.5, 0.9, 0.99])),
        feasible=feasible,
    )


def check_shapes(seed: int) -> list[str]:
    """An inventory of random size; each shape compiles."""
    draws = Draws(np.random.default_rng(seed))
    stock, season = int(draws.rng.integers(5, 60)), int(draws.rng.integers(1, 6))
    draws.style, draws.discount = "plain", float(draws.rng.choice([0.9, 0.99]))
    law, _ = draws.draw_law("demand", 4, {"season": season})
    stages = [
        ts.Decide(
            "stock",
            to=lambda stock, order: np.minimum(stock + order, top),
            pays=lambda order: -2.0 * order,
        ),
        ts.Shift(
            "stock",
            law,
            by=lambda demand: -demand,
            pays=lambda stock, demand: 5.0 * np.minimum(stock, demand) - 0.1 * stock,
        ),
        ts.Move("season", draws.draw_rows((season,), season)),
    ]
    top = stock - 1
    world = World({"stock": range(stock), "season": range(season)}, (0, 2, 4), None, "order")
    mdp = ts.MDP.staged(
        world.axes, world.actions, draws.discount, stages, action_name=world.action_name
    )
    case = Case("shapes", seed, mdp, read_stages(world, stages))
    return exact_checks.check_against_dense(case, "stages")


def check_exports(seed: int) -> list[str]:
    """Exports of a random program to four languages agree with it, on and off the grid."""
    rng = np.random.default_rng(seed)
    program = RuleTree(GRID, draw_program(rng, depth=int(rng.integers(0, 5))), 1)
    policy = ts.Rule(GRID, tuple(range(4)), program, kind="own")
    messages = []
    formats = (C99(), Rust(), BarePython(), Sql())
    for file_format, off_grid in product(formats, OFF_GRID):
        draft = ExportContext(policy, "rule", off_grid)
        is_compiled = isinstance(file_format, CompiledFormat)
        odd_values = (float("nan"), float("inf"), -float("inf")) if is_compiled else ()
        outside = list_off_grid_rows(policy, odd_values)
        rows = {name: [*list_states(policy)[name], *outside[name]] for name in GRID.axes}
        try:
            actions = file_format.run(file_format.write(draft), draft, rows)
        except ToolMissing:
            continue
        wrong = np.flatnonzero(actions != find_expected_actions(policy, rows, off_grid))
        if wrong.size:
            row = {name: values[int(wrong[0])] for name, values in rows.items()}
            messages.append(f"{file_format.name}, {off_grid}: {row} gets {actions[wrong[0]]}")
    return messages


def check_spreadsheets(seed: int) -> list[str]:
    """Random tables on uneven axes, and random programs, in LibreOffice if it is installed."""
    if SOFFICE is None:
        return []
    rng, cases = np.random.default_rng(seed), []
    for number in range(20):  # in one workbook, since LibreOffice takes long to start
        if number % 2:
            policy = ts.Rule(
                GRID, tuple(range(4)), RuleTree(GRID, draw_program(rng), 1), kind="own"
            )
        else:
            grid = ts.StateGrid(x=draw_axis(rng), y=draw_axis(rng), label=["a", "A", " a"])
            policy = ts.Policy.from_table(grid, (-1, 2 / 3, 1e6), rng.integers(0, 3, grid.shape))
        inside, outside = list_states(policy), list_off_grid_rows(policy, ("three", None))
        rows = {name: [*inside[name], *outside[name]] for name in policy.grid.axes}
        cases += [(ExportContext(policy, "rule", off_grid), rows) for off_grid in OFF_GRID]
    with tempfile.TemporaryDirectory() as folder:
        save_rows(cases, Path(folder, "rows.xlsx"))
        (sheets,) = calculate([Path(folder, "rows.xlsx")], Path(folder))
    messages = []
    for (draft, rows), actions in zip(cases, read_decisions(cases, sheets), strict=True):
        wrong = np.flatnonzero(actions != find_expected_actions(draft.policy, rows, draft.off_grid))
        if wrong.size:
            row = {name: values[int(wrong[0])] for name, values in rows.items()}
            messages.append(f"{draft.off_grid}: {row} gets {actions[wrong[0]]}")
    return messages


def draw_axis(rng: np.random.Generator) -> np.ndarray:
    """Even or uneven values: large, small, negative, or with more digits than are displayed."""
    step = float(rng.choice([1, 0.1, 1 / 3, 0.25, 7, 1e-3, 1e5]))
    uneven = rng.choice(9, rng.integers(1, 9), replace=False)
    places = uneven if rng.random() < 0.5 else np.arange(5)
    return (rng.integers(-9, 9) + places) * step + rng.choice([0.0, 0.05, step / 7, 1e4])


def alternate_routes(faults: Callable[[int, str], list[str]]) -> Callable[[int], list[str]]:
    """Alternate between rows and compiled stages, every hundred seeds."""
    return lambda seed: faults(seed, ROUTES[seed // 100 % len(ROUTES)])


OFF_GRID = ("clamp", "refuse")
KINDS = {
    "staged": Kind(alternate_routes(check_staged), 160),
    "building": Kind(alternate_routes(check_building), 1000),
    "certificates": Kind(alternate_routes(check_certificates), 1000),
    "checker": Kind(alternate_routes(check_checker), 1000),
    "lies": Kind(check_lies, 1000),
    "criteria": Kind(check_criteria, 1000),
    "gains": Kind(check_gains, 1000),
    "totals": Kind(check_totals, 1000),
    "decomposable": Kind(check_decomposable, 1000),
    "slices": Kind(check_slices, 1000),
    "constraints": Kind(check_constraints, 300),
    "rules": Kind(check_rules, 1000),
    "proofs": Kind(check_proofs, 1000),
    "listed": Kind(check_listed, 1000),
    "exports": Kind(check_exports, 1000),
    "spreadsheets": Kind(check_spreadsheets, 1000),
    "hostile files": Kind(check_hostile_files, 1000),
    "studies": Kind(check_killed_study, 20),
    "shapes": Kind(check_shapes, 300),
}
