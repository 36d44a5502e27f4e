"""The one compiled engine: JAX in float64, set locally and never for the user's whole process.

A compiled piece belongs to one function, one structure and one set of shapes; it holds some hundred
memory maps, of which a process may have 65,530. So all pieces live in one table of at most ``KEPT``:
the one unused for longest makes room for a new one, and JAX, whose caches know it by weak references
only, gives its memory back. Nothing here touches what the user compiled.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable
from functools import wraps
from inspect import signature
from threading import Lock
from typing import Any, ParamSpec, TypeVar

import jax

KEPT = 64  # compiled pieces: a dozen shapes solved and certified

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
    """NumPy arrays as the engine's arrays, float64 and int32 kept; copied, without compiling."""
    return jax.device_put(tree, may_alias=False)


class Pieces:
    """Compiled pieces by function, structure and shapes, the last used last."""

    def __init__(self, most: int) -> None:
        self.most = most
        self._kept: OrderedDict[Hashable, Callable] = OrderedDict()
        self._lock = Lock()

    def __len__(self) -> int:
        return len(self._kept)

    def piece(self, function: Callable, static: tuple, arrays: tuple) -> Callable:
        """``function`` with its ``static`` arguments, compiled for the shapes of ``arrays``."""
        leaves, tree = jax.tree.flatten(arrays)
        key = (function, static, tree, *map(_form, leaves))
        with self._lock:
            piece = self._kept.get(key)
            if piece is None:
                piece = self._kept[key] = _jitted(function, static)
            self._kept.move_to_end(key)
            while len(self._kept) > self.most:
                self._kept.popitem(last=False)
        return piece


def _form(leaf: Any) -> Hashable:
    return (leaf.shape, leaf.dtype) if hasattr(leaf, "shape") else type(leaf)


def _jitted(function: Callable, static: tuple) -> Callable:
    """A jitted function of its own, so that all it compiles goes when it goes."""

    def piece(*arrays):
        return function(*static, *arrays)

    piece.__name__ = function.__name__
    return jax.jit(piece)


PIECES = Pieces(KEPT)


def compiled(*static: str) -> Callable[[Callable[..., Result]], Callable[..., Result]]:
    """Compile a function for each new shape; its first arguments, named ``static``, are structure.

    What is compiled is kept in ``PIECES``. Arguments are given by position.
    """

    def decorate(function: Callable[..., Result]) -> Callable[..., Result]:
        n = len(static)
        if tuple(signature(function).parameters)[:n] != static:
            raise TypeError(f"{function.__name__} must begin with its static arguments {static}")

        @wraps(function)
        def call(*args: Any) -> Result:
            return PIECES.piece(function, args[:n], args[n:])(*args[n:])

        return call

    return decorate
