"""Every problem of the registry, written as UMB, solved by Storm as well.

    python benchmarks/storm.py PYTHON [problem ...]

PYTHON has stormpy 2 (``with_storm.py`` is what it runs). Discounted, average and total values of
all states are compared: the largest difference over the largest value. Models of more than
MAX_STATES states are left out. The table is docs/generated/storm.md.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import scipy.sparse as sp
from tables import Table

import tessella as ts
from tessella.criteria.average import Average

MAX_STATES = 20_000
STORM_PROGRAM = Path(__file__).parent / "with_storm.py"
COLUMNS = ("problem", "states", "criterion", "largest difference", "tessella's bound")
INTRODUCTION = """# Values confirmed by Storm

Written by `benchmarks/storm.py`: each problem as UMB, solved by Storm 2.0 with sound methods, to
1e-10 with a discount or a total, and to its default of 1e-6 for averages. The difference and the
bound are relative to the largest value.
"""
TABLE = Table("storm", COLUMNS, head=INTRODUCTION)


def close_ends(mdp: ts.MDP) -> ts.MDP:
    """The same model on one axis, with a last state in which it stays once it has ended."""
    pairs = mdp.to_pairs()
    n = mdp.n_states
    missing = np.maximum(1 - pairs.transition.sum(axis=1), 0.0)
    rows = sp.hstack([pairs.transition, missing[:, None] * (missing > 1e-12)[:, None]])
    rows = sp.vstack([rows, sp.csr_array(([1.0], ([0], [n])), shape=(1, n + 1))], format="csr")
    return ts.MDP.from_pairs(
        np.append(pairs.states, n),
        np.append(pairs.choices, 0),
        rows,
        mdp.sense.display(np.append(pairs.reward, 0.0)),
        0.5,
        minimise=mdp.minimise,
    )


def make_query(mdp: ts.MDP) -> str:
    goal = "min" if mdp.minimise else "max"
    if isinstance(mdp.criterion, Average):
        return f'R{{"{mdp.sense.reward}"}}{goal}=? [LRA]'
    over = f"Cdiscount={mdp.discount!r}" if mdp.discount < 1 else "C"
    return f'R{{"{mdp.sense.reward}"}}{goal}=? [{over}]'


def ask_storm(python: str, models: dict[str, ts.MDP]) -> dict[str, dict]:
    with tempfile.TemporaryDirectory() as folder:
        for name, mdp in models.items():
            can_end = (mdp.to_pairs().transition.sum(axis=1) < 1 - 1e-9).any()
            has_text = any(values.dtype.kind == "U" for values in mdp.grid.values)
            plain = close_ends(mdp) if can_end or has_text else mdp.with_start(None)
            plain.to_umb(Path(folder) / f"{name}.umb")
        queries = {name: make_query(mdp) for name, mdp in models.items()}
        (Path(folder) / "queries.json").write_text(json.dumps(queries))
        command = [python, str(STORM_PROGRAM), "solve", folder]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        return json.loads((Path(folder) / "values.json").read_text())


def compare(mdp: ts.MDP, answer: dict) -> tuple[str, str]:
    if "error" in answer:
        return answer["error"][:60], "-"
    solution = ts.solve(mdp)
    values = mdp.sense.display(solution.value.ravel())
    if solution.gain is not None:
        values = np.full(mdp.n_states, mdp.sense.display(solution.gain))
    scale = max(np.abs(values).max(), 1e-300)
    difference = np.abs(np.array(answer["values"])[: mdp.n_states] - values).max()
    return f"{difference / scale:.1e}", f"{solution.error_bound / scale:.1e}"


def main() -> None:
    python, *names = sys.argv[1:]
    models = {
        name: ts.problem(name).build() for name in names or [p.name for p in ts.all_problems()]
    }
    large = {name for name, mdp in models.items() if mdp.n_states > MAX_STATES}
    small = {name: mdp for name, mdp in models.items() if name not in large}
    answers = ask_storm(python, small)
    for name, mdp in small.items():
        TABLE.put([name, f"{mdp.n_states:,}", str(mdp.criterion), *compare(mdp, answers[name])])
    for name in sorted(large):
        print(f"{name}: {models[name].n_states:,} states are left out", file=sys.stderr)


if __name__ == "__main__":
    main()
