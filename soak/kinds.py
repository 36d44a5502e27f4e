"""What is swept: for each kind a function from a seed to the faults of that seed's case."""

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
from support import gains as averages
from support import judging, nearly_apart
from support import totals as until_the_end
from support.alterations import FORGERIES, altered_leaf
from support.awkward import Case, numbered
from support.criteria import MADE
from support.criteria import contradictions as judged
from support.draws import Draws
from support.exact import World, read_stages
from support.exports import GRID, drawn, meant, states, strays
from support.forgeries import LIES, forge, shifted
from support.hostile import faults as hostile_files
from support.libreoffice import SOFFICE, calculate, decisions, save_rows
from support.occupation_program import faults as constraints
from support.routes import ROUTES, plan_by
from support.sliced_models import faults as slices
from support.small_rules import faults as rules
from support.stories import NUMBERS, story
from support.tiny_proofs import faults as proofs
from support.truth import case, contradictions

import tessella as ts
from soak.studies import killed_study
from tessella.checker import check
from tessella.mdp.rule_tree import RuleTree
from tessella.rules.export.c99 import C99
from tessella.rules.export.code import CompiledTarget
from tessella.rules.export.export_context import ExportContext, ToolMissing
from tessella.rules.export.python_code import BarePython
from tessella.rules.export.rust import Rust
from tessella.rules.export.sql import Sql


@dataclass(frozen=True)
class Kind:
    """Cases of one kind.

    Attributes:
        faults: seed -> what is wrong, in words.
        cases: so many in one process.
    """

    faults: Callable[[int], list[str]]
    cases: int


def staged(seed: int, route: str) -> list[str]:
    """Random stages, against dense arrays and fractions; at times by another method."""
    told = story(seed)
    found = judging.against_dense(told, route)
    methods = [None, ts.PolicyIteration(), ts.ModifiedPolicyIteration(), ts.ValueIteration()]
    method = methods[seed // NUMBERS % len(methods)]
    if method is not None and told.mdp.discount <= 0.99:
        faults = judging.against_dense(told, route, method)
        found += [f"{type(method).__name__}: {fault}" for fault in faults]
    return found


def building(seed: int, route: str) -> list[str]:
    """Every way of building: optimum and policy value in rational arithmetic."""
    made = numbered(seed)
    faults = judging.optimum(made, route) + judging.worth(made, route)
    return [f"{made}: {fault}" for fault in faults]


def certificates(seed: int, route: str) -> list[str]:
    """Every way of building: the enclosures of a certificate in rational arithmetic."""
    made = numbered(seed)
    return [f"{made}: {fault}" for fault in judging.certificate(made, route)]


def checker(seed: int, route: str) -> list[str]:
    """Honest certificates hold, of any model; false ones of a plain model do not."""
    rng = np.random.default_rng(seed)
    made = numbered(seed)
    with tempfile.TemporaryDirectory() as folder:
        files = Files(Path(folder))
        solution = ts.solve(made.mdp, plan=plan_by(made.mdp, route))
        found = files.honest(solution, judging.some_policy(made, rng))
        solution = ts.solve(plain_model(rng))
        worst = np.where(np.isfinite(solution.q), solution.q, np.inf).argmin(axis=-1)
        found += files.honest(solution, np.where(rng.random(len(worst)) < 0.7, worst, 0))
        return found + [
            fault for forge in FORGERIES for fault in files.forged(forge, solution, rng)
        ]


def lies(seed: int) -> list[str]:
    """Consistent certificates with one lie: what holds of them is true in rational arithmetic."""
    rng = np.random.default_rng(seed)
    solution, policy, start, truth = case(seed)
    off = float(rng.choice([0.0, 1e-12, 1e-9, 1e-3, 0.5])) * np.abs(solution.value).max()
    wrong = shifted(solution, off * rng.uniform(-1, 1, solution.value.shape))
    found = []
    with tempfile.TemporaryDirectory() as folder:
        files = Files(Path(folder))
        found += files.honest(wrong, policy, start)
        for lie in LIES:
            factor = 1 - 10.0 ** rng.uniform(-14, 0)
            forged = forge(wrong, policy, start, lie, factor)
            if forged is None:
                continue
            forged.save(files.folder / "certificate.json")
            contradicted = contradictions(forged, truth)
            if files.checked()[0] == 0 and contradicted:
                found.append(f"{lie} by {factor!r} holds and is false: {contradicted}")
    return found


def criteria(seed: int) -> list[str]:
    """A finite horizon, a total until the end, an average: what is said in rational arithmetic."""
    made = MADE[seed % len(MADE)](seed // len(MADE))
    return judged(made, np.random.default_rng(seed))


def gains(seed: int) -> list[str]:
    """Averages: what holds is true from every state, whatever the chains; the honest holds."""
    rng, mdp = np.random.default_rng(seed), averages.drawn(seed)
    truth, table = averages.Truth(mdp), averages.some_policy(mdp, seed)
    scale = float(rng.choice([0.0, 1e-6, 1.0, 1e6]))
    made = list(averages.edges(mdp, truth, table, scale, seed))
    with contextlib.suppress(ts.ModelError, ts.NotConverged):  # there may be several averages
        made.append((ts.certify(ts.solve(mdp), table), ""))
    found = []
    with tempfile.TemporaryDirectory() as folder:
        files = Files(Path(folder))
        mdp.save(files.folder / "model.nc")
        for certificate, lie in made:
            certificate.save(files.folder / "certificate.json")
            found += files.averaged(truth, lie)
        honest = json.loads((files.folder / "certificate.json").read_text())
        for _ in range(10):
            altered = altered_leaf(json.loads(json.dumps(honest)), None, rng)
            (files.folder / "certificate.json").write_text(json.dumps(altered))
            found += files.averaged(truth, None)
    return found


def totals(seed: int) -> list[str]:
    """Totals: all that is stated, in rational arithmetic; the honest holds, no false one does."""
    rng, mdp = np.random.default_rng(seed), until_the_end.drawn(seed)
    solution, table = ts.solve(mdp), until_the_end.some_policy(mdp, rng)
    truth = until_the_end.Truth(solution)
    found = judged(mdp, rng) + truth.faults_of_evaluation(table)
    ends = truth.worth(table) is not None
    try:
        honest = ts.certify(solution, table if ends else solution.policy)
    except ts.NotConverged as error:  # waiting may cost less than a backup of floats shows
        waits = until_the_end.MODELS[seed % len(until_the_end.MODELS)] is until_the_end.waiting
        return found if waits else [*found, f"not certified: {error}"]
    with tempfile.TemporaryDirectory() as folder:
        files = Files(Path(folder))
        mdp.save(files.folder / "model.nc")
        for certificate in (*until_the_end.forged(honest, rng), honest):
            certificate.save(files.folder / "certificate.json")
            found += files.totalled(truth, honest=certificate is honest)
        document = json.loads((files.folder / "certificate.json").read_text())
        for _ in range(10):
            altered = altered_leaf(json.loads(json.dumps(document)), solution, rng)
            (files.folder / "certificate.json").write_text(json.dumps(altered))
            found += files.totalled(truth, honest=False)
    return found


def decomposable(seed: int) -> list[str]:
    """Averages of chains that nearly fall apart: all that is stated, in rational arithmetic."""
    return nearly_apart.faults(seed)


@dataclass(frozen=True)
class Files:
    """A certificate and its model in a folder, handed to the checker."""

    folder: Path

    def honest(self, solution: ts.Solution, policy: np.ndarray, start=None) -> list[str]:
        solution.mdp.save(self.folder / "model.nc")
        table = policy.reshape(solution.mdp.grid.shape)
        ts.certify(solution, table, start).save(self.folder / "certificate.json")
        status, said = self.checked()
        return [] if status == 0 else [f"an honest certificate is refused: {said}"]

    def forged(self, forge, solution: ts.Solution, rng: np.random.Generator) -> list[str]:
        file = self.folder / "certificate.json"
        honest, found = file.read_text(), []
        for _ in range(10):
            content = forge(json.loads(honest), solution, rng)
            file.write_text(json.dumps(content))
            if self.checked()[0] != 1:
                found.append(f"{forge.__name__} passes: {changed(json.loads(honest), content)}")
        file.write_text(honest)
        return found

    def averaged(self, truth: averages.Truth, lie: str | None) -> list[str]:
        """Faults in what is said of an average; whether it lies is not known where ``lie`` is."""
        status, said = self.checked()
        if lie is not None and (status == 0) == bool(lie):
            return [f"{lie or 'an honest certificate'}: {said}"]
        if status:
            return []
        loaded = ts.Certificate.load(self.folder / "certificate.json")
        wrong = averages.contradictions(loaded, truth)
        return [f"{said}, and {wrong} are false"] if wrong else []

    def totalled(self, truth: until_the_end.Truth, honest: bool) -> list[str]:
        """Faults in what is stated of a total: the honest is rejected, or what holds is false."""
        status, said = self.checked()
        if status:
            return [f"an honest certificate is rejected: {said}"] if honest else []
        wrong = truth.contradictions(ts.Certificate.load(self.folder / "certificate.json"))
        return [f"{said}, and {wrong} are false"] if wrong else []

    def checked(self) -> tuple[int, str]:
        with contextlib.redirect_stdout(io.StringIO()) as said:
            status = check.main([str(self.folder / n) for n in ("model.nc", "certificate.json")])
        return status, said.getvalue().strip()


def changed(old, new, path: str = "") -> str:
    """Where two documents first differ."""
    if isinstance(old, dict | list) and type(old) is type(new) and len(old) == len(new):
        for name in old if isinstance(old, dict) else range(len(old)):
            if name in new or isinstance(new, list):
                found = changed(old[name], new[name], f"{path}.{name}".lstrip("."))
                if found:
                    return found
    return "" if old == new else f"{path}: {old!r} became {new!r}"


def plain_model(rng: np.random.Generator) -> ts.MDP:
    """Without ties, with a few infeasible actions."""
    n, n_actions = 6, 3
    feasible = rng.random((n, n_actions)) < 0.8
    feasible[:, 0], feasible[0] = True, True
    return ts.MDP.from_arrays(
        rng.dirichlet(np.ones(n), (n_actions, n)),
        rng.normal(size=(n, n_actions)),
        float(rng.choice([0.5, 0.9, 0.99])),
        feasible=feasible,
    )


def shapes(seed: int) -> list[str]:
    """A shop of random size, all in one process."""
    draws = Draws(np.random.default_rng(seed))
    stock, season = int(draws.rng.integers(5, 60)), int(draws.rng.integers(1, 6))
    draws.style, draws.discount = "plain", float(draws.rng.choice([0.9, 0.99]))
    law, _ = draws.law("demand", 4, {"season": season})
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
        ts.Move("season", draws.rows((season,), season)),
    ]
    top = stock - 1
    world = World({"stock": range(stock), "season": range(season)}, (0, 2, 4), None, "order")
    mdp = ts.MDP.staged(
        world.axes, world.actions, draws.discount, stages, action_name=world.action_name
    )
    made = Case("shapes", seed, mdp, read_stages(world, stages))
    return judging.against_dense(made, "stages")  # each shape compiled anew


def exports(seed: int) -> list[str]:
    """A random program in four languages says what it says itself, on the grid and off it."""
    rng = np.random.default_rng(seed)
    program = RuleTree(GRID, drawn(rng, depth=int(rng.integers(0, 5))), 1)
    policy = ts.Rule(GRID, tuple(range(4)), program, kind="own")
    found = []
    targets = (C99(), Rust(), BarePython(), Sql())
    for target, off_grid in product(targets, OFF_GRID):
        draft = ExportContext(policy, "rule", off_grid)
        is_compiled = isinstance(target, CompiledTarget)
        odd = (float("nan"), float("inf"), -float("inf")) if is_compiled else ()
        beyond = strays(policy, odd)
        rows = {name: [*states(policy)[name], *beyond[name]] for name in GRID.axes}
        try:
            said = target.run(target.write(draft), draft, rows)
        except ToolMissing:
            continue
        wrong = np.flatnonzero(said != meant(policy, rows, off_grid))
        if wrong.size:
            row = {name: values[int(wrong[0])] for name, values in rows.items()}
            found.append(f"{target.name}, {off_grid}: {row} gets {said[wrong[0]]}")
    return found


def spreadsheets(seed: int) -> list[str]:
    """Random tables on awkward axes, and random programs, in LibreOffice, where there is one."""
    if SOFFICE is None:
        return []
    rng, cases = np.random.default_rng(seed), []
    for number in range(20):  # in one workbook: most of the time goes into the start
        if number % 2:
            policy = ts.Rule(GRID, tuple(range(4)), RuleTree(GRID, drawn(rng), 1), kind="own")
        else:
            grid = ts.StateGrid(x=awkward_axis(rng), y=awkward_axis(rng), label=["a", "A", " a"])
            policy = ts.Policy.from_table(grid, (-1, 2 / 3, 1e6), rng.integers(0, 3, grid.shape))
        inside, beyond = states(policy), strays(policy, ("three", None))
        rows = {name: [*inside[name], *beyond[name]] for name in policy.grid.axes}
        cases += [(ExportContext(policy, "rule", off_grid), rows) for off_grid in OFF_GRID]
    with tempfile.TemporaryDirectory() as folder:
        save_rows(cases, Path(folder, "rows.xlsx"))
        (sheets,) = calculate([Path(folder, "rows.xlsx")], Path(folder))
    found = []
    for (draft, rows), said in zip(cases, decisions(cases, sheets), strict=True):
        wrong = np.flatnonzero(said != meant(draft.policy, rows, draft.off_grid))
        if wrong.size:
            row = {name: values[int(wrong[0])] for name, values in rows.items()}
            found.append(f"{draft.off_grid}: {row} gets {said[wrong[0]]}")
    return found


def awkward_axis(rng: np.random.Generator) -> np.ndarray:
    """Even or uneven values, large, small, negative, or with more digits than are shown."""
    step = float(rng.choice([1, 0.1, 1 / 3, 0.25, 7, 1e-3, 1e5]))
    uneven = rng.choice(9, rng.integers(1, 9), replace=False)
    places = uneven if rng.random() < 0.5 else np.arange(5)
    return (rng.integers(-9, 9) + places) * step + rng.choice([0.0, 0.05, step / 7, 1e4])


def on_both_routes(faults: Callable[[int, str], list[str]]) -> Callable[[int], list[str]]:
    """Small staged models as rows and through compiled stages, a hundred seeds each in turn."""
    return lambda seed: faults(seed, ROUTES[seed // 100 % len(ROUTES)])


OFF_GRID = ("clamp", "refuse")
KINDS = {
    "staged": Kind(on_both_routes(staged), 160),
    "building": Kind(on_both_routes(building), 1000),
    "certificates": Kind(on_both_routes(certificates), 1000),
    "checker": Kind(on_both_routes(checker), 1000),
    "lies": Kind(lies, 1000),
    "criteria": Kind(criteria, 1000),
    "gains": Kind(gains, 1000),
    "totals": Kind(totals, 1000),
    "decomposable": Kind(decomposable, 1000),
    "slices": Kind(slices, 1000),
    "constraints": Kind(constraints, 300),
    "rules": Kind(rules, 1000),
    "proofs": Kind(proofs, 1000),
    "exports": Kind(exports, 1000),
    "spreadsheets": Kind(spreadsheets, 1000),
    "hostile files": Kind(hostile_files, 1000),
    "studies": Kind(killed_study, 20),
    "shapes": Kind(shapes, 300),
}
