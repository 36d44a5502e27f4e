"""Compilation by JAX, in float64: set locally and never for the user's whole process.

JAX runs its own threads, and ``os.fork`` copies memory without threads: in a child forked after JAX
was used, the next call would never return. Such a child is recognised by its process id.

A compiled function belongs to one Python function, its static arguments and one set of shapes. It
holds from fifty to a thousand memory maps, and a process may have 65,530. So all compiled functions
are in one cache: above ``CACHE_MAX_FUNCTIONS`` functions or ``CACHE_MAX_MEMORY_MAPS`` maps, the
least recently used is dropped. JAX holds it by weak references, so its memory is freed at once.
Traces that JAX caches of its own functions are unbounded, and only clearing all caches frees them;
that happens once in ``JAX_CACHE_RESET_COMPILATIONS`` compilations.
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

CACHE_MAX_FUNCTIONS = 64  # compiled functions: enough to solve and certify a dozen shapes
CACHE_MAX_MEMORY_MAPS = 16_000  # maps of the whole process above which the cache shrinks ...
CACHE_MIN_FUNCTIONS = 12  # ... but not below this: other code may hold the maps
# After this many compilations all caches of JAX are cleared, those of the user included.
JAX_CACHE_RESET_COMPILATIONS = 1000

Params = ParamSpec("Params")
Result = TypeVar("Result")

# The caller's setting, inside ``in_float64``.
_caller_x64: ContextVar[bool | None] = ContextVar("caller", default=None)
_jax_process_id: int | None = None  # of the process that first used JAX; a forked child inherits it


def in_float64(function: Callable[Params, Result]) -> Callable[Params, Result]:
    """Run ``function`` with 64-bit numbers on, whatever the setting of the caller."""

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
    """Restore the caller's precision inside ``in_float64``, to call a function of the user."""
    caller_setting = _caller_uses_x64()
    token = _caller_x64.set(None)
    try:
        with jax.enable_x64(caller_setting):
            yield
    finally:
        _caller_x64.reset(token)


def _caller_uses_x64() -> bool:
    """Whether 64-bit numbers are on outside of ``in_float64``."""
    caller_setting = _caller_x64.get()
    return bool(jax.config.jax_enable_x64) if caller_setting is None else caller_setting  # type: ignore[attr-defined]


def require_unforked() -> None:
    """Raise an error in a process that was forked after JAX had been used: it would hang."""
    global _jax_process_id
    if _jax_process_id is None:
        _jax_process_id = os.getpid()
    elif _jax_process_id != os.getpid():
        raise RuntimeError(
            "this process was forked from one that had used JAX, whose threads a fork does not "
            "copy, and would wait for them forever; start processes with spawn or forkserver: "
            "multiprocessing.get_context('spawn')"
        )


@in_float64
def to_device(tree):
    """NumPy arrays as arrays on the device, float64 and int32 kept.

    ``jnp.asarray`` would compile for each shape. ``device_put`` may share memory with its argument,
    so it gets a copy. An object with ``on_device`` makes its array on the device itself.
    """

    def prepare(leaf: Any) -> Any:
        if isinstance(leaf, jax.Array):
            return leaf
        build = getattr(leaf, "on_device", None)
        return np.array(leaf) if build is None else build()

    return jax.device_put(jax.tree.map(prepare, tree))


def results_stay_on_device() -> bool:
    """Whether results stay on the device until they are read: where that is not the CPU."""
    return jax.default_backend() != "cpu"


@in_float64
def einsum_on_device(subscripts: str, *factors: np.ndarray) -> jax.Array:
    """``einsum`` of NumPy arrays, computed on the device, with a result that stays there."""
    return jax.numpy.einsum(subscripts, *to_device(factors))


def to_backend(backend: Any, tree: Any) -> Any:
    """Copies of NumPy arrays as arrays that ``backend`` works on."""
    if backend.is_compiled:
        return to_device(tree)
    return jax.tree.map(np.array, tree)


class CompilationCache:
    """Compiled functions by function, static arguments and shapes, in order of their last use."""

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
        self._lock = RLock()  # re-entrant: finalisers of dropped functions may use the cache

    def __len__(self) -> int:
        return len(self._functions)

    def get_compiled(
        self, function: Callable, static: tuple, arrays: tuple, donate_first: bool = False
    ) -> Callable:
        """``function`` with its ``static`` arguments, compiled for the shapes of ``arrays``."""
        leaves, tree = jax.tree.flatten(arrays)
        key = (function, static, tree, *map(_leaf_key, leaves))
        with self._lock:
            compiled = self._functions.get(key)
            if compiled is None:
                self._evict()
                compiled = self._functions[key] = _jit_separately(function, static, donate_first)
            self._functions.move_to_end(key)
        return compiled

    def _evict(self) -> None:
        self.n_compiled += 1
        if self.n_compiled % self.reset_interval == 0:
            self._functions.clear()
            jax.clear_caches()
        while len(self._functions) >= self.max_functions or (
            len(self._functions) >= CACHE_MIN_FUNCTIONS and count_memory_maps() > self.max_maps
        ):
            self._functions.popitem(last=False)


def count_memory_maps() -> int:
    """Memory maps of this process; 0 where the system does not report them."""
    try:
        with open("/proc/self/maps", "rb") as file:
            return file.read().count(b"\n")
    except OSError:
        return 0


def _leaf_key(leaf: Any) -> Hashable:
    return (leaf.shape, leaf.dtype) if hasattr(leaf, "shape") else type(leaf)


def _jit_separately(function: Callable, static: tuple, donate_first: bool) -> Callable:
    """A separate jitted function, so that all it compiled is freed with it."""

    def compiled(*arrays):
        return function(*static, *arrays)

    compiled.__name__ = function.__name__
    return jax.jit(compiled, donate_argnums=0 if donate_first else None)


COMPILATION_CACHE = CompilationCache()


def compile_per_shape(
    *static: str, donate_first: bool = False
) -> Callable[[Callable[..., Result]], Callable[..., Result]]:
    """Compile a function for each new shape; its first arguments, named ``static``, are static.

    Compiled functions are kept in ``COMPILATION_CACHE``. Arguments are given by position. With
    ``donate_first`` the result takes the memory of the first array, which is invalid afterwards.
    A function of a backend or of operators that NumPy runs is not compiled.
    """

    def decorate(function: Callable[..., Result]) -> Callable[..., Result]:
        n = len(static)
        if tuple(signature(function).parameters)[:n] != static:
            raise TypeError(f"{function.__name__} must begin with its static arguments {static}")

        @wraps(function)
        def call(*args: Any) -> Result:
            if not all(getattr(arg, "is_compiled", True) for arg in args[: n + 1]):
                with np.errstate(all="ignore"):  # numbers that are not finite show in the bound
                    return function(*args)
            require_unforked()
            arrays = args[n:]
            compiled = COMPILATION_CACHE.get_compiled(function, args[:n], arrays, donate_first)
            return compiled(*arrays)

        return call

    return decorate
