"""The one compiled engine: JAX in float64, set locally and never for the user's whole process."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import ParamSpec, TypeVar

import jax
import jax.numpy as jnp

Params = ParamSpec("Params")
Result = TypeVar("Result")


def in_float64(function: Callable[Params, Result]) -> Callable[Params, Result]:
    """Run ``function`` with 64-bit numbers on, whatever the caller's own setting is."""

    @wraps(function)
    def wrapped(*args: Params.args, **kwargs: Params.kwargs) -> Result:
        with jax.enable_x64(True):
            return function(*args, **kwargs)

    return wrapped


@in_float64
def on_device(tree):
    """NumPy arrays as the engine's arrays, float64 and int32 kept."""
    return jax.tree.map(jnp.asarray, tree)
