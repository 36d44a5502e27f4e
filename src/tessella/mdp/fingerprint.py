"""A hash of everything that decides a model's numbers."""

from __future__ import annotations

import dataclasses

import numpy as np
import scipy.sparse as sp


def feed(digest, *values: object) -> None:
    """Add ``values`` to the digest: numbers, text, arrays, and dataclasses of them.

    Functions are left out: what they computed is in the arrays.
    """
    for value in values:
        if sp.issparse(value):
            feed(digest, value.indptr, value.indices, value.data)
        elif isinstance(value, np.ndarray):
            digest.update(f"{value.dtype.str}{value.shape}".encode())
            digest.update(np.ascontiguousarray(value).data if value.size else b"")
        elif dataclasses.is_dataclass(value):
            digest.update(type(value).__name__.encode())
            feed(digest, *(getattr(value, f.name) for f in dataclasses.fields(value)))
        elif isinstance(value, list | tuple):
            digest.update(f"[{len(value)}]".encode())
            feed(digest, *value)
        elif callable(value):
            continue
        else:
            digest.update(repr(value).encode())
