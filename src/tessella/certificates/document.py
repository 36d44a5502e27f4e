"""A certificate as JSON: every number written so that it reads back to the same float.

Grids are nested lists, an enclosed number is ``[value, lower, upper]``. JSON has no infinity: the
margin of a state with only one feasible action is null.
"""

from __future__ import annotations

import json
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, get_args, get_type_hints

import numpy as np

from tessella.certificates.enclosure import Band, Enclosed
from tessella.errors import FileError, writing
from tessella.grid import StateGrid
from tessella.mdp.actions import as_json, from_json
from tessella.mdp.policy import Policy

if TYPE_CHECKING:
    from tessella.certificates.statement import Statement

S = TypeVar("S", bound="Statement")


def save(certificate: Statement, path: str | Path) -> None:
    """Write ``certificate`` to ``path``."""
    name, version = certificate.FORMAT
    about = {"format": name, "version": version, "content": certificate.content}
    content = about | _to_json(certificate)
    text = json.dumps(content, allow_nan=False) + "\n"
    with writing(path):
        Path(path).write_text(text, encoding="utf-8")


def load(kind: type[S], path: str | Path) -> S:
    """The certificate in ``path``, made of the fields that ``kind`` has."""
    try:
        content = json.loads(Path(path).read_text(encoding="utf-8"))
        if (content["format"], content["version"]) != kind.FORMAT:
            raise ValueError(f"it has format {content['format']!r}, version {content['version']}")
        certificate = _from_json(kind, content | {"mdp": None})
        certificate.__dict__["content"] = content["content"]  # what was saved, as it was
        return certificate
    except (OSError, ValueError, KeyError, TypeError) as error:
        name, version = kind.FORMAT
        rule = f"{path} must be a certificate of format {name!r}, version {version}"
        raise FileError(rule, value=f"{type(error).__name__}: {error}") from error


def _to_json(value: Any) -> Any:
    if isinstance(value, Enclosed):
        return [float(value), value.lower, value.upper]
    if isinstance(value, np.ndarray):
        if value.dtype.kind == "f" and not np.isfinite(value).all():
            return np.where(np.isfinite(value), value, None).tolist()  # type: ignore[arg-type]
        return value.tolist()
    if isinstance(value, Policy):
        axes = dict(zip(value.grid.axes, (v.tolist() for v in value.grid.values), strict=True))
        about = {"name": value.name, "size": value.size, "actions": as_json(value.actions)}
        return about | {"grid": axes, "table": value.table.tolist()}
    if is_dataclass(value):
        kept = (part.name for part in fields(value) if part.name != "mdp")
        return {name: _to_json(getattr(value, name)) for name in kept}
    return value


def _from_json(kind: Any, value: Any) -> Any:
    """``value`` as the ``kind`` of thing that a field's annotation asks for."""
    kinds = get_args(kind) or (kind,)
    if value is None:
        return None
    if Enclosed in kinds:
        return Enclosed(*value)
    if kind is Policy:
        grid, table = StateGrid(value["grid"]), np.array(value["table"])
        actions = from_json(value["actions"])
        return Policy.of(grid, actions, table, size=value["size"], name=value["name"])
    if kind is Band:
        return Band(*(_array(value[part]) for part in ("value", "lower", "upper")))
    nested = next((k for k in kinds if is_dataclass(k)), None)
    if isinstance(nested, type):
        hints = get_type_hints(nested)
        return nested(**{f.name: _from_json(hints[f.name], value[f.name]) for f in fields(nested)})
    return _array(value) if isinstance(value, list) else value


def _array(value: list) -> np.ndarray:
    array = np.asarray(value)
    if array.dtype.kind == "i":
        return array.astype(np.int32)
    array = array.astype(float)
    return np.where(np.isnan(array), np.inf, array)
