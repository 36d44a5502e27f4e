"""Compilation by JAX, in float64: set locally and never for the user's whole process.

JAX works with threads of its own, and ``os.fork`` copies memory without threads: in a child forked
after JAX has been used, the next call waits for ever. Such a child is known by its number.

A compiled piece belongs to one function, one structure and one set of shapes. It holds from fifty
to a thousand memory maps, and a process may have 65,530. So all pieces live in one table: past
``CACHE_MAX_FUNCTIONS`` of them, or past ``CACHE_MAX_MEMORY_MAPS`` maps, the one unused for longest
makes room for a new one. JAX knows it by weak references only, so its maps and memory are free at
once. What JAX remembers of its own functions (how ``where`` was traced for this shape and that) has
no bound, and only clearing all caches frees it; that happens once in
``JAX_CACHE_RESET_COMPILATIONS`` pieces, after more than ten minutes of compiling.
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

CACHE_MAX_FUNCTIONS = 64  # compiled pieces at most: a dozen shapes solved and certified
CACHE_MAX_MEMORY_MAPS = 16_000  # maps of the whole process; past this the cache shrinks ...
CACHE_MIN_FUNCTIONS = 12  # ... but not below so many pieces: others may hold the maps
# After so many new pieces JAX's caches are cleared, the user's with them.
JAX_CACHE_RESET_COMPILATIONS = 1000

Params = ParamSpec("Params")
Result = TypeVar("Result")

# The caller's setting, inside ``in_float64``.
_caller_x64: ContextVar[bool | None] = ContextVar("caller", default=None)
_jax_process_id: int | None = None  # the one that first used JAX; a forked child inherits it


def in_float64(function: Callable[Params, Result]) -> Callable[Params, Result]:
    """Run ``function`` with 64-bit numbers on, whatever the caller's own setting is."""

    @wraps(function)
    def wrapped(*args: Params.args, **kwargs: Params.kwargs) -> Result:
        require_unforked()
        token = _caller_x64.set(_caller_uses_x64())
        try:
            with jax.enable_x64(True):
                return function(*args, **kwargs)
        finally:
            _caller_x64.reset(token)

    return wrapped


@contextmanager
def in_caller_precision() -> Iterator[None]:
    """The caller's own precision again, inside ``in_float64``: for calling what a user wrote."""
    own = _caller_uses_x64()
    token = _caller_x64.set(None)
    try:
        with jax.enable_x64(own):
            yield
    finally:
        _caller_x64.reset(token)


def _caller_uses_x64() -> bool:
    """Whether 64-bit numbers are on outside of ``in_float64``."""
    own = _caller_x64.get()
    return bool(jax.config.jax_enable_x64) if own is None else own  # type: ignore[attr-defined]


def require_unforked() -> None:
    """Refuse to work in a process that was forked after JAX had been used: it would hang."""
    global _jax_process_id
    if _jax_process_id is None:
        _jax_process_id = os.getpid()
    elif _jax_process_id != os.getpid():
        raise RuntimeError(
            "this process was forked from one that had used JAX, whose threads a fork does not "
            "copy, and would wait for them for ever; start processes with spawn or forkserver: "
            "multiprocessing.get_context('spawn')"
        )


@in_float64
def to_device(tree):
    """NumPy arrays as arrays on the device, float64 and int32 kept.

    ``jnp.asarray`` would compile something for each shape; ``device_put`` may share memory with
    what it is given, so it is given a copy. What can be made on the device is made there.
    """

    def ready(leaf: Any) -> Any:
        if isinstance(leaf, jax.Array):
            return leaf
        build = getattr(leaf, "on_device", None)
        return np.array(leaf) if build is None else build()

    return jax.device_put(jax.tree.map(ready, tree))


def results_stay_on_device() -> bool:
    """Whether results stay on the device until they are asked for: where that is not the CPU."""
    return jax.default_backend() != "cpu"


@in_float64
def einsum_on_device(subscripts: str, *factors: np.ndarray) -> jax.Array:
    """``einsum``, of arrays that go to the device and with a result that stays there."""
    return jax.numpy.einsum(subscripts, *to_device(factors))


def to_backend(backend: Any, tree: Any) -> Any:
    """NumPy arrays as those that ``backend`` works on: copies, which nobody else changes."""
    if backend.is_compiled:
        return to_device(tree)
    return jax.tree.map(np.array, tree)


class CompilationCache:
    """Compiled pieces by function, structure and shapes, the last used last."""

    def __init__(
        self,
        max_functions: int = CACHE_MAX_FUNCTIONS,
        max_maps: int = CACHE_MAX_MEMORY_MAPS,
        reset_interval: int = JAX_CACHE_RESET_COMPILATIONS,
    ) -> None:
        self.max_functions = max_functions
        self.max_maps = max_maps
        self.reset_interval = reset_interval
        self.n_compiled = 0
        self._functions: OrderedDict[Hashable, Callable] = OrderedDict()
        self._lock = RLock()  # of the re-entrant kind: what is dropped may run finalisers

    def __len__(self) -> int:
        return len(self._functions)

    def get_compiled(
        self, function: Callable, static: tuple, arrays: tuple, donate_first: bool = False
    ) -> Callable:
        """``function`` with its ``static`` arguments, compiled for the shapes of ``arrays``."""
        leaves, tree = jax.tree.flatten(arrays)
        key = (function, static, tree, *map(_leaf_key, leaves))
        with self._lock:
            piece = self._functions.get(key)
            if piece is None:
                self._evict()
                piece = self._functions[key] = _jit(function, static, donate_first)
            self._functions.move_to_end(key)
        return piece

    def _evict(self) -> None:
        self.n_compiled += 1
        if self.n_compiled % self.reset_interval == 0:
            self._functions.clear()
            jax.clear_caches()
        while self._is_full():
            self._functions.popitem(last=False)

    def _is_full(self) -> bool:
        kept = len(self._functions)
        return kept >= self.max_functions or (
            kept >= CACHE_MIN_FUNCTIONS and count_memory_maps() > self.max_maps
        )


def count_memory_maps() -> int:
    """Memory maps of this process; 0 where the system does not tell."""
    try:
        with open("/proc/self/maps", "rb") as file:
            return file.read().count(b"\n")
    except OSError:
        return 0


def _leaf_key(leaf: Any) -> Hashable:
    return (leaf.shape, leaf.dtype) if hasattr(leaf, "shape") else type(leaf)


def _jit(function: Callable, static: tuple, donate_first: bool) -> Callable:
    """A jitted function of its own, so that all it compiles goes when it goes."""

    def piece(*arrays):
        return function(*static, *arrays)

    piece.__name__ = function.__name__
    return jax.jit(piece, donate_argnums=0 if donate_first else None)


COMPILATION_CACHE = CompilationCache()


def compile_per_shape(
    *static: str, donate_first: bool = False
) -> Callable[[Callable[..., Result]], Callable[..., Result]]:
    """Compile a function for each new shape; its first arguments, named ``static``, are structure.

    What is compiled is kept in ``COMPILATION_CACHE``. Arguments are given by position. With
    ``donate_first`` the memory of the first array holds the result, and the array is gone
    afterwards. Where the first argument is a backend that NumPy runs, nothing is compiled:
    the function runs as it stands.
    """

    def decorate(function: Callable[..., Result]) -> Callable[..., Result]:
        n = len(static)
        if tuple(signature(function).parameters)[:n] != static:
            raise TypeError(f"{function.__name__} must begin with its static arguments {static}")

        @wraps(function)
        def call(*args: Any) -> Result:
            if n and not getattr(args[0], "is_compiled", True):
                with np.errstate(all="ignore"):  # what is not finite is found by its bound
                    return function(*args)
            require_unforked()
            return COMPILATION_CACHE.get_compiled(function, args[:n], args[n:], donate_first)(
                *args[n:]
            )

        return call

    return decorate
