"""A hash of everything that decides a model's numbers.

Classes enter it by the names in ``HASHED_NAMES``, or by their own: saved files and rules keep it.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

import numpy as np

HASHED_NAMES = {
    "AddAxes": "Open",
    "AxisAssignment": "Gather",
    "AxisMap": "Gather",
    "AxisMatrix": "Matrix",
    "AxisShift": "Slices",
    "CompiledStage": "Compiled",
    "DropAxes": "Forget",
    "EvaluationContext": "Scope",
    "Identity": "Stay",
    "InterpolatedScatter": "Corners",
    "Interpolation": "Blend",
    "JointMatrix": "Scatter",
    "ModelRounding": "Built",
    "PeriodReward": "Paid",
}


def update_digest(digest, *values: Any) -> None:
    """Add ``values`` to the digest: numbers, text, arrays; dataclasses, mappings, lists of them.

    Functions are left out: what they computed is in the arrays. Each value ends in a separator, so
    that (1, 23) and (12, 3) differ.
    """
    for value in values:
        if hasattr(value, "indptr"):  # a sparse matrix; the width of its indices may vary
            index = (value.indptr.astype(np.int64), value.indices.astype(np.int64))
            update_digest(digest, value.shape, *index, value.data)
        elif isinstance(value, np.ndarray):
            digest.update(f"{value.dtype.str}{value.shape}".encode())
            plain = value + 0.0 if value.dtype.kind == "f" else value  # -0.0 is 0.0
            digest.update(plain.tobytes())
        elif dataclasses.is_dataclass(value):
            digest.update(HASHED_NAMES.get(type(value).__name__, type(value).__name__).encode())
            update_digest(digest, *_identity(value))
        elif isinstance(value, Mapping):
            update_digest(digest, list(value), list(value.values()))
        elif isinstance(value, list | tuple):
            digest.update(f"[{len(value)}]".encode())
            update_digest(digest, *value)
        elif not callable(value):
            digest.update(repr(value).encode())
        digest.update(b";")


def _identity(value: Any) -> tuple:
    """What a dataclass adds to the digest: its own ``identity``, or all its fields."""
    own = getattr(value, "identity", None)
    if own is not None:
        return own()
    return tuple(getattr(value, field.name) for field in dataclasses.fields(value))
