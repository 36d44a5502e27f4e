"""A certificate as JSON: every number written so that it reads back to the same float.

Grids are nested lists, an enclosed number is ``[value, lower, upper]``. JSON has no infinity: the
margin of a state with only one feasible action is null.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, fields, is_dataclass
from pathlib import Path
from types import NoneType, UnionType
from typing import TYPE_CHECKING, Any, TypeVar, get_args, get_type_hints

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
    from tessella.certificates.certificate_base import CertificateBase

S = TypeVar("S", bound="CertificateBase")
WHAT = "a certificate"
PLAIN = {str: "text", bool: "true or false", int: NATURAL_NUMBER, float: NOT_NEGATIVE}


def save(certificate: CertificateBase, path: str | Path) -> None:
    """Write ``certificate`` to ``path``."""
    name, version = certificate.FORMAT
    metadata = {"format": name, "version": version, "content": certificate.content}
    content = metadata | _to_json(certificate)
    text = json.dumps(content, allow_nan=False) + "\n"
    with atomic_write(path) as part:
        part.write_text(text, encoding="utf-8")


def load(certificate_type: type[S], path: str | Path) -> S:
    """The certificate in ``path``, made of the fields that ``kind`` has."""
    name, version = certificate_type.FORMAT
    content = read_json(path, WHAT)
    with read_errors(path, WHAT):
        if (content.get("format"), content.get("version")) != certificate_type.FORMAT:
            found = f"got {content.get('format')!r}, version {content.get('version')!r}"
            raise FileError(f"it must have format {name!r}, version {version}", value=found)
        policy = _policy(read_field(content, "policy", "an object"))
        certificate = _Reader(policy).read_all(certificate_type, content | {"mdp": None})
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
        axes = dict(zip(value.grid.axes, (v.tolist() for v in value.grid.values), strict=True))
        metadata = {
            "name": value.name,
            "size": value.size,
            "actions": actions_to_json(value.actions),
        }
        return metadata | {"grid": axes, "table": value.table.tolist()}
    if is_dataclass(value):
        field_names = (item.name for item in fields(value) if item.name != "mdp")
        return {name: _to_json(getattr(value, name)) for name in field_names}
    return value


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

    def read_all(self, kind: type, content: dict[str, Any]) -> Any:
        hints = get_type_hints(kind)
        return kind(**{f.name: self._field(hints[f.name], content, f.name) for f in fields(kind)})

    def _field(self, hint: Any, content: dict[str, Any], name: str) -> Any:
        kinds = get_args(hint) if isinstance(hint, UnionType) else (hint,)
        if name not in content or (content[name] is None and NoneType not in kinds):
            raise FileError(f"the field {name!r} is needed", value="it is missing")
        value = content[name]
        kind = kinds[0]
        if value is None:
            return None
        if kind in PLAIN:
            return kind(read_field(content, name, PLAIN[kind]))
        if kind is Policy:
            return self.policy
        if kind is Interval:
            if not (isinstance(value, list) and len(value) == 3 and all(map(is_finite, value))):
                requirement = f"{name!r} must be [value, lower, upper]"
                raise FileError(requirement, value=f"got {value!r:.60}")
            return Interval(*value)
        if kind is IntervalArray:
            parts = read_field(content, name, "an object")
            band = IntervalArray(
                *(self._array(parts[p], name) for p in ("value", "lower", "upper"))
            )
            if not ((band.lower <= band.value) & (band.value <= band.upper)).all():
                raise FileError(f"every value of {name!r} must lie between its ends")
            return band
        if is_dataclass(kind):
            return self.read_all(kind, read_field(content, name, "an object"))  # type: ignore[arg-type]
        array = self._array(value, name)
        whole = hint == NDArray[np.int32]
        return check_actions(array, self.policy.grid, self.policy.actions) if whole else array

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
