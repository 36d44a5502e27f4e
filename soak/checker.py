"""The checker: honest certificates hold, and whatever holds is true."""

from __future__ import annotations

import contextlib
import io
import json
import tempfile
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from support import judging
from support.alterations import FORGERIES
from support.awkward import numbered
from support.forgeries import LIES, forge, shifted
from support.truth import Truth, contradictions

import tessella as ts
from tessella.certify import check

FACTORS, OFF = (1 - 1e-9, 0.9, 0.5, 1e-3, 0.0), (0.0, 1e-9, 1e-3, 0.5)


def checker(seed: int) -> list[str]:
    """Faults with one honest certificate of any model, and with false ones of a plain model."""
    rng = np.random.default_rng(seed)
    case = numbered(seed)
    with tempfile.TemporaryDirectory() as folder:
        files = Files(Path(folder))
        found = files.honest(ts.solve(case.mdp), judging.some_policy(case, rng))
        plain = plain_arrays(rng)
        solution = ts.solve(ts.MDP.from_arrays(*plain[:3], feasible=plain[3]))
        worst = np.where(np.isfinite(solution.q), solution.q, np.inf).argmin(axis=-1)
        policy = np.where(rng.random(len(worst)) < 0.7, worst, 0)
        found += files.honest(solution, policy)
        found += [fault for alter in FORGERIES for fault in files.forged(alter, solution, rng)]
        return found + files.lied(
            solution, Truth(*plain, policy.tolist(), [1 / 6] * 6), rng, policy
        )


@dataclass(frozen=True)
class Files:
    """A certificate and its model in a folder, handed to the checker."""

    folder: Path

    def honest(self, solution: ts.Solution, policy: np.ndarray) -> list[str]:
        solution.mdp.save(self.folder / "model.nc")
        table = policy.reshape(solution.mdp.grid.shape)
        ts.certify(solution, table).save(self.folder / "certificate.json")
        status, said = self.checked()
        return [] if status == 0 else [f"an honest certificate is refused: {said}"]

    def forged(self, alter, solution: ts.Solution, rng: np.random.Generator) -> list[str]:
        file = self.folder / "certificate.json"
        honest, found = file.read_text(), []
        for _ in range(10):
            content = alter(json.loads(honest), solution, rng)
            file.write_text(json.dumps(content))
            if self.checked()[0] != 1:
                found.append(f"{alter.__name__} passes: {changed(json.loads(honest), content)}")
        file.write_text(honest)
        return found

    def lied(self, solution: ts.Solution, truth: Truth, rng, policy: np.ndarray) -> list[str]:
        """Consistent lies: what holds nevertheless must be true in rational arithmetic."""
        found = []
        for lie in LIES:
            factor, off = float(rng.choice(FACTORS)), float(rng.choice(OFF))
            noise = off * np.abs(solution.value).max() * rng.uniform(-1, 1, solution.value.shape)
            wrong = shifted(solution, noise)
            forged = forge(wrong, policy, [1 / 6] * 6, lie, factor)
            if forged is None:
                continue
            forged.save(self.folder / "certificate.json")
            if self.checked()[0] == 0:
                false = contradictions(forged, truth)
                found += [
                    f"{lie} times {factor:g}, off by {off:g}: {name} is false" for name in false
                ]
        return found

    def checked(self) -> tuple[int, str]:
        with contextlib.redirect_stdout(io.StringIO()) as said:
            status = check.main([str(self.folder / n) for n in ("certificate.json", "model.nc")])
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


def plain_arrays(rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray, float, np.ndarray]:
    """(transition, reward, discount, feasible) without ties."""
    n, n_actions = 6, 3
    feasible = rng.random((n, n_actions)) < 0.8
    feasible[:, 0], feasible[0] = True, True
    transition = rng.dirichlet(np.ones(n), (n_actions, n))
    reward = rng.normal(size=(n, n_actions))
    return transition, reward, float(rng.choice([0.5, 0.9, 0.99])), feasible
