"""A certificate as JSON: every number written so that it reads back to the same float.

Grids are nested lists, an enclosed number is ``[value, lower, upper]``. JSON has no infinity: the
margin of a state with only one feasible action is null.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass
from pathlib import Path
from types import MappingProxyType, NoneType, UnionType
from typing import TYPE_CHECKING, Any, get_args, get_type_hints

import numpy as np
from numpy.typing import NDArray

from tessella.certificates.interval import Interval, IntervalArray
from tessella.errors import FileError
from tessella.files import (
    KINDS,
    NATURAL_NUMBER,
    NOT_NEGATIVE,
    atomic_write,
    is_finite,
    read_errors,
    read_field,
    read_json,
)
from tessella.mdp.actions import actions_from_json, actions_to_json, normalise_actions
from tessella.mdp.policy import Policy, check_actions, read_grid

if TYPE_CHECKING:
    from tessella.certificates.certificate import BlockCertificate, Certificate

WHAT = "a certificate"
PLAIN = {str: "text", bool: "true or false", int: NATURAL_NUMBER, float: NOT_NEGATIVE}
FIGURES = (
    "optimal_value_error policy_value_error tolerance mean_loss relative_loss worst_loss "
    "worst_state policy_error costly_error value_gap optimal_mean policy_mean slabs minimise"
)


def save(certificate: Certificate, path: str | Path) -> None:
    """Write ``certificate`` to ``path``."""
    name, version = certificate.FORMAT
    metadata = {"format": name, "version": version, "content": certificate.content}
    stated = {
        certificate.FILE_NAMES.get(item.name, item.name): _to_json(getattr(certificate, item.name))
        for item in fields(certificate)
        if item.name != "mdp"
    }
    text = json.dumps(metadata | stated, allow_nan=False) + "\n"
    with atomic_write(path) as part:
        part.write_text(text, encoding="utf-8")


def save_figures(certificate: BlockCertificate, path: str | Path) -> None:
    """Write the figures of a certificate in blocks, each with its interval."""

    def to_json(value: Any) -> Any:
        if isinstance(value, Interval):
            return {"value": float(value), "lower": value.lower, "upper": value.upper}
        return value

    name, version = certificate.FORMAT
    about = {
        "format": name,
        "version": version,
        "model": certificate.model,
        "states": certificate.grid.size,
        "fingerprint": certificate.fingerprint,
        "policy": certificate.policy.name,
    }
    figures = {name: to_json(getattr(certificate, name)) for name in FIGURES.split()}
    text = json.dumps(about | figures, indent=1)
    with atomic_write(path) as part:
        part.write_text(text + "\n", encoding="utf-8")


def load(path: str | Path, kinds: Sequence[type[Certificate]]) -> Certificate:
    """The certificate in ``path``, of the kind that its format names."""
    content = read_json(path, WHAT)
    with read_errors(path, WHAT):
        named = [kind for kind in kinds if kind.FORMAT[0] == content.get("format")]
        kind = named[0] if named else kinds[0]
        name, version = kind.FORMAT
        if (content.get("format"), content.get("version")) != kind.FORMAT:
            found = f"got {content.get('format')!r}, version {content.get('version')!r}"
            raise FileError(f"it must have format {name!r}, version {version}", value=found)
        policy = _policy(read_field(content, "policy", "an object"))
        certificate = _Reader(policy).read_all(kind, content | {"mdp": None}, kind.FILE_NAMES)
        # What was saved, as it was.
        certificate.__dict__["content"] = content["content"] and read_field(
            content, "content", "text"
        )
        return certificate


def _to_json(value: Any) -> Any:
    if isinstance(value, Interval):
        return [float(value), value.lower, value.upper]
    if isinstance(value, np.ndarray):
        if value.dtype.kind == "f" and not np.isfinite(value).all():
            return np.where(np.isfinite(value), value, None).tolist()  # type: ignore[arg-type]
        return value.tolist()
    if isinstance(value, Policy):
        return _policy_to_json(value)
    if is_dataclass(value):
        return {item.name: _to_json(getattr(value, item.name)) for item in fields(value)}
    return value


def _policy_to_json(policy: Policy) -> dict[str, Any]:
    grid = policy.grid
    return {
        "name": policy.name,
        "size": policy.size,
        "actions": actions_to_json(policy.actions),
        "grid": dict(zip(grid.axes, (v.tolist() for v in grid.values), strict=True)),
        "table": policy.table.tolist(),
    }


def _policy(content: dict[str, Any]) -> Policy:
    actions = actions_from_json(read_field(content, "actions", "a list"))
    about = {
        "size": read_field(content, "size", NATURAL_NUMBER),
        "name": read_field(content, "name", "text"),
    }
    grid = read_grid(content, "grid")
    return Policy.from_table(
        grid, normalise_actions(actions, "action"), np.array(content["table"]), **about
    )


@dataclass(frozen=True, eq=False)
class _Reader:
    """Fields of a certificate of ``policy``, each as its annotation asks for."""

    policy: Policy

    def read_all(
        self, kind: type, content: dict[str, Any], names: Mapping[str, str] = MappingProxyType({})
    ) -> Any:
        hints = get_type_hints(kind)
        named = {f.name: names.get(f.name, f.name) for f in fields(kind)}
        return kind(**{n: self._field(hints[n], content, name) for n, name in named.items()})

    def _field(self, hint: Any, content: dict[str, Any], name: str) -> Any:
        kinds = get_args(hint) if isinstance(hint, UnionType) else (hint,)
        _require_field(content, name, NoneType in kinds)
        if content[name] is None:
            return None
        kind = kinds[0]
        if kind in PLAIN:
            return kind(read_field(content, name, PLAIN[kind]))
        if kind is Policy:
            return self.policy
        if kind is Interval:
            return _interval(content[name], name)
        if kind is IntervalArray:
            return self._interval_array(read_field(content, name, "an object"), name)
        if is_dataclass(kind):
            return self.read_all(kind, read_field(content, name, "an object"))  # type: ignore[arg-type]
        array = self._array(content[name], name)
        if hint == NDArray[np.int32]:
            return check_actions(array, self.policy.grid, self.policy.actions)
        return array

    def _interval_array(self, parts: dict[str, Any], name: str) -> IntervalArray:
        band = IntervalArray(*(self._array(parts[p], name) for p in ("value", "lower", "upper")))
        if not ((band.lower <= band.value) & (band.value <= band.upper)).all():
            raise FileError(f"every value of {name!r} must lie between its ends")
        return band

    def _array(self, value: Any, name: str) -> np.ndarray:
        """Numbers by state, by action or by pairs of them; null is infinite."""
        array = np.asarray(value, dtype=object)
        n_actions = len(self.policy.actions)
        by_action = {"region": (n_actions,), "pair": (n_actions,) * 2, "face": (n_actions,) * 2}
        shape = by_action.get(name, self.policy.grid.shape)
        kind = "a number or null" if name == "margin" else "a number"
        if array.shape != shape or not all(map(KINDS[kind], array.ravel())):
            raise FileError(f"every entry of {name!r} must be {kind}, in shape {shape}")
        return np.where(array == None, np.inf, array).astype(float)  # noqa: E711 (elementwise)


def _require_field(content: dict[str, Any], name: str, may_be_null: bool) -> None:
    if name not in content or (content[name] is None and not may_be_null):
        raise FileError(f"the field {name!r} is needed", value="it is missing")


def _interval(value: Any, name: str) -> Interval:
    if not (isinstance(value, list) and len(value) == 3 and all(map(is_finite, value))):
        requirement = f"{name!r} must be [value, lower, upper]"
        raise FileError(requirement, value=f"got {value!r:.60}")
    return Interval(*value)
