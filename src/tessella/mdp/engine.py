"""The one compiled engine: JAX in float64, set locally and never for the user's whole process.

JAX works with threads of its own, and ``os.fork`` copies memory without threads: in a child forked
after JAX has been used, the next call waits for ever. Such a child is known by its number.

A compiled piece belongs to one function, one structure and one set of shapes. It holds from fifty
to a thousand memory maps, and a process may have 65,530. So all pieces live in one table: past
``KEPT`` of them, or past ``MAPS`` maps, the one unused for longest makes room for a new one. JAX
knows it by weak references only, so its maps and memory are free at once. What JAX remembers of its
own functions (how ``where`` was traced for this shape and that) has no bound, and only clearing all
caches frees it; that happens once in ``RENEWED`` pieces, after more than ten minutes of compiling.
"""

from __future__ import annotations

import os
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import wraps
from inspect import signature
from threading import RLock
from typing import Any, ParamSpec, TypeVar

import jax
import numpy as np

from tessella.mdp.dynamics import Plain

KEPT = 64  # compiled pieces at most: a dozen shapes solved and certified
MAPS = 16_000  # of the whole process; past this the table shrinks ...
LEAST = 12  # ... but not below so many pieces: others may hold the maps
RENEWED = 1000  # after so many new pieces JAX's caches are cleared, the user's with them

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
    """NumPy arrays as the engine's arrays, float64 and int32 kept.

    ``jnp.asarray`` would compile something for each shape; ``device_put`` may share memory with
    what it is given, so it is given a copy. What can be made on the device is made there.
    """

    def ready(leaf: Any) -> Any:
        if isinstance(leaf, jax.Array):
            return leaf
        made = getattr(leaf, "on_device", None)
        return np.array(leaf) if made is None else made()

    return jax.device_put(jax.tree.map(ready, tree))


def held() -> bool:
    """Whether results stay on the device until they are asked for: where that is not the CPU."""
    return jax.default_backend() != "cpu"


@in_float64
def summed_on_device(subscripts: str, *factors: np.ndarray) -> jax.Array:
    """``einsum``, of arrays that go to the device and with a result that stays there."""
    return jax.numpy.einsum(subscripts, *on_device(factors))


def placed(program: Any, tree: Any) -> Any:
    """NumPy arrays as those that ``program`` works on: copies, which nobody else changes."""
    if not isinstance(program, Plain):
        return on_device(tree)
    return jax.tree.map(np.array, tree)


class Pieces:
    """Compiled pieces by function, structure and shapes, the last used last."""

    def __init__(self, most: int = KEPT, maps: int = MAPS, renewed: int = RENEWED) -> None:
        self.most, self.maps, self.renewed = most, maps, renewed
        self.made = 0
        self._kept: OrderedDict[Hashable, Callable] = OrderedDict()
        self._lock = RLock()  # of the re-entrant kind: what is dropped may run finalisers

    def __len__(self) -> int:
        return len(self._kept)

    def piece(
        self, function: Callable, static: tuple, arrays: tuple, consumed: bool = False
    ) -> Callable:
        """``function`` with its ``static`` arguments, compiled for the shapes of ``arrays``."""
        leaves, tree = jax.tree.flatten(arrays)
        key = (function, static, tree, *map(_form, leaves))
        with self._lock:
            piece = self._kept.get(key)
            if piece is None:
                self._make_room()
                piece = self._kept[key] = _jitted(function, static, consumed)
            self._kept.move_to_end(key)
        return piece

    def _make_room(self) -> None:
        self.made += 1
        if self.made % self.renewed == 0:
            self._kept.clear()
            jax.clear_caches()
        while self._full():
            self._kept.popitem(last=False)

    def _full(self) -> bool:
        kept = len(self._kept)
        return kept >= self.most or (kept >= LEAST and maps() > self.maps)


def maps() -> int:
    """Memory maps of this process; 0 where the system does not tell."""
    try:
        with open("/proc/self/maps", "rb") as file:
            return file.read().count(b"\n")
    except OSError:
        return 0


def _form(leaf: Any) -> Hashable:
    return (leaf.shape, leaf.dtype) if hasattr(leaf, "shape") else type(leaf)


def _jitted(function: Callable, static: tuple, consumed: bool) -> Callable:
    """A jitted function of its own, so that all it compiles goes when it goes."""

    def piece(*arrays):
        return function(*static, *arrays)

    piece.__name__ = function.__name__
    return jax.jit(piece, donate_argnums=0 if consumed else None)


PIECES = Pieces()


def compiled(
    *static: str, consumed: bool = False
) -> Callable[[Callable[..., Result]], Callable[..., Result]]:
    """Compile a function for each new shape; its first arguments, named ``static``, are structure.

    What is compiled is kept in ``PIECES``. Arguments are given by position. The first array is
    ``consumed`` where its memory is to hold the result, and is gone afterwards. Where the first
    argument is a program for NumPy, nothing is compiled: the function runs as it stands.
    """

    def decorate(function: Callable[..., Result]) -> Callable[..., Result]:
        n = len(static)
        if tuple(signature(function).parameters)[:n] != static:
            raise TypeError(f"{function.__name__} must begin with its static arguments {static}")

        @wraps(function)
        def call(*args: Any) -> Result:
            if n and isinstance(args[0], Plain):
                with np.errstate(all="ignore"):  # what is not finite is found by its bound
                    return function(*args)
            refuse_forked()
            return PIECES.piece(function, args[:n], args[n:], consumed)(*args[n:])

        return call

    return decorate
