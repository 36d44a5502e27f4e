"""Spec: everything that decides the numbers of one run, and nothing else.

    key = SHA-256 of the canonical JSON of (problem, family, model, method, settings, edition,
                                            n, seed), and of the names of measures if it has some.

Two specs are the same run exactly when their keys are equal. Canonical JSON has sorted names, no
spaces, and only finite numbers, strings, lists and objects, so the key is the same on every
machine. Worker counts, paths and dates are not in it.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from tessella.errors import StudyError
from tessella.problems.problem import OBSERVATION_NOISE


@dataclass(frozen=True, eq=False)
class Spec:
    """One run.

    Attributes:
        problem: its name, or ``module:attribute``.
        family: the problem's family.
        model: every setting of the problem, observation noise included.
        method: name in the registry of methods, or ``module:attribute``.
        settings: every hyper-parameter of the method.
        edition: the method's edition; raised when its code changes what it computes.
        n: labels, or updates, that the method may use; 0 where it uses none.
        seed: which of the repetitions.
        measures: names of the measures of the policy, in addition to the figures of every record.
    """

    problem: str
    family: str
    model: Mapping[str, Any]
    method: str
    settings: Mapping[str, Any] = field(default_factory=dict)
    edition: int = 1
    n: int = 0
    seed: int = 0
    measures: tuple[str, ...] = ()

    @cached_property
    def json(self) -> str:
        """The canonical JSON."""
        parts = asdict(self)
        if not self.measures:
            del parts["measures"]
        return to_canonical_json(parts)

    @cached_property
    def key(self) -> str:
        return hashlib.sha256(self.json.encode()).hexdigest()

    @property
    def dynamics(self) -> str:
        """What decides transitions and rewards: all of the model but the noise of observations."""
        settings = {name: value for name, value in self.model.items() if name != OBSERVATION_NOISE}
        return to_canonical_json([self.family, settings])

    @staticmethod
    def from_json(text: str) -> Spec:
        parts = json.loads(text)
        return Spec(**parts | {"measures": tuple(parts.get("measures", ()))})

    def generator(self, purpose: str) -> np.random.Generator:
        """Random numbers for ``purpose``, decided by n and seed alone.

        Method and problem have no part in it: all methods of one problem, n and seed see the
        same sample, variants of a problem see the same draws, and differences between
        either are paired.
        """
        return np.random.default_rng(self.entropy(purpose))

    def entropy(self, purpose: str, every_n: bool = False) -> int:
        """A 63-bit seed for ``purpose``; the same for every n if ``every_n``."""
        label = to_canonical_json([purpose, None if every_n else self.n, self.seed])
        return int.from_bytes(hashlib.sha256(label.encode()).digest()[:8], "big") >> 1

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Spec) and self.key == other.key

    def __hash__(self) -> int:
        return hash(self.key)

    def __str__(self) -> str:
        return f"{self.problem}, {self.method}, n={self.n}, seed={self.seed}"


def to_canonical_json(value: Any) -> str:
    """``value`` as canonical JSON; refuses what has no unique form there."""
    try:
        return json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False)
    except (TypeError, ValueError) as error:
        raise StudyError(f"a spec holds finite numbers, text, lists and objects: {error}") from None


def setting_to_json(value: Any, kinds: tuple[type, ...] = ()) -> Any:
    """A setting of a method as a spec holds it; of anything else, what it prints or is called.

    Args:
        kinds: dataclasses that become their fields, with their name where there are several.
    """
    if isinstance(value, kinds):
        name = {"kind": type(value).__name__} if len(kinds) > 1 else {}
        return name | asdict(value)
    if isinstance(value, tuple | list):
        return [setting_to_json(part, kinds) for part in value]
    if value is None or isinstance(value, bool | int | str):
        return value
    if isinstance(value, float) and math.isfinite(value):
        return value
    text = repr(value)  # an address in it would be another one in every process
    return getattr(value, "__qualname__", type(value).__name__) if " at 0x" in text else text


def setting_from_json(value: Any, kinds: tuple[type, ...]) -> Any:
    """The setting that ``setting_to_json(..., kinds)`` wrote; a list comes back as a tuple."""
    if isinstance(value, list):
        return tuple(setting_from_json(part, kinds) for part in value)
    if not isinstance(value, dict):
        return value
    kind_by_name = {kind.__name__: kind for kind in kinds}
    kind = kind_by_name[value["kind"] if len(kinds) > 1 else next(iter(kind_by_name))]
    return kind(**{name: part for name, part in value.items() if name != "kind"})
