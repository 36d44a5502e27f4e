"""The one compiled engine: JAX in float64, set locally and never for the user's whole process.

JAX works with threads of its own, and ``os.fork`` copies memory without threads: in a child forked
after JAX has been used, the next call waits for ever. Such a child is known by its number.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import wraps
from typing import ParamSpec, TypeVar

import jax
import jax.numpy as jnp

Params = ParamSpec("Params")
Result = TypeVar("Result")

_caller: ContextVar[bool | None] = ContextVar("caller", default=None)  # their setting, within ours
_process: int | None = None  # the one that first used the engine; a forked child inherits it


def in_float64(function: Callable[Params, Result]) -> Callable[Params, Result]:
    """Run ``function`` with 64-bit numbers on, whatever the caller's own setting is."""

    @wraps(function)
    def wrapped(*args: Params.args, **kwargs: Params.kwargs) -> Result:
        refuse_forked()
        token = _caller.set(_callers_setting())
        try:
            with jax.enable_x64(True):
                return function(*args, **kwargs)
        finally:
            _caller.reset(token)

    return wrapped


@contextmanager
def in_callers_setting() -> Iterator[None]:
    """The caller's own precision again, inside ``in_float64``: for calling what a user wrote."""
    own = _callers_setting()
    token = _caller.set(None)
    try:
        with jax.enable_x64(own):
            yield
    finally:
        _caller.reset(token)


def _callers_setting() -> bool:
    """Whether 64-bit numbers are on outside of the engine."""
    own = _caller.get()
    return bool(jax.config.jax_enable_x64) if own is None else own  # type: ignore[attr-defined]


def refuse_forked() -> None:
    """Refuse to work in a process that was forked after JAX had been used: it would hang."""
    global _process
    if _process is None:
        _process = os.getpid()
    elif _process != os.getpid():
        raise RuntimeError(
            "this process was forked from one that had used JAX, whose threads a fork does not "
            "copy, and would wait for them for ever; start processes with spawn or forkserver: "
            "multiprocessing.get_context('spawn')"
        )


@in_float64
def on_device(tree):
    """NumPy arrays as the engine's arrays, float64 and int32 kept."""
    return jax.tree.map(jnp.asarray, tree)
