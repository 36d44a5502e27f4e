"""One interface to NumPy, which computes at once, and to JAX, which compiles first.

A loop of the solvers is written once. ``array_namespace(x)`` gives it the functions for its arrays:
those of the array library (``where``, ``maximum``, ...), and loops, branches and a linear solver.
Tables on a CPU, and small staged models that are converted to tables, use NumPy and SciPy, whose
sparse products are faster than compiled ones; everything else is compiled by JAX.

Results may stay on a device: ``with_host_arrays`` reads them as read-only NumPy arrays.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import cached_property
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

Record = TypeVar("Record")


class ArrayNamespace:
    """NumPy and SciPy; functions that are not defined here are those of the ``library``."""

    library: Any = np

    def __getattr__(self, name: str) -> Any:
        attribute = getattr(self.library, name)
        setattr(self, name, attribute)  # the next access does not call __getattr__
        return attribute

    def while_loop(self, condition: Callable, body: Callable, carry: Any) -> Any:
        """``carry = body(carry)`` while ``condition(carry)``."""
        while condition(carry):
            carry = body(carry)
        return carry

    def iterate(self, count: Any, body: Callable, carry: Any) -> Any:
        """``carry = body(carry)``, ``count`` times."""
        for _ in range(int(count)):
            carry = body(carry)
        return carry

    def branch(self, condition: Any, if_true: Callable, if_false: Callable) -> Any:
        """``if_true()`` or ``if_false()``."""
        return if_true() if condition else if_false()

    def map_items(self, function: Callable, items: Any) -> Any:
        """The results of ``function`` for each item, one after the other, stacked."""
        return np.stack([function(item) for item in items])

    def fold(self, count: int, step: Callable, carry: Any) -> Any:
        """``carry = step(k, carry)`` for k = 0, 1, ..., count - 1."""
        for k in range(count):
            carry = step(k, carry)
        return carry

    def scan(self, step: Callable, carry: Any, count: int, reverse: bool = False) -> Any:
        """``carry, out = step(carry, k)`` for k = 0, ..., count - 1 or back: all out, stacked."""
        outputs: list[Any] = [None] * count
        for k in reversed(range(count)) if reverse else range(count):
            carry, outputs[k] = step(carry, k)
        return np.stack(outputs)

    def put(self, array: Any, index: Any, value: Any) -> Any:
        """``array`` with ``value`` at ``index``."""
        array = array.copy()
        array[index] = value
        return array

    def add_at(self, array: Any, index: Any, value: Any) -> Any:
        """``array`` with ``value`` added at ``index``, which may name a place several times."""
        array = array.copy()
        np.add.at(array, index, value)
        return array

    def without_fusion(self, arrays: Any) -> Any:
        """``arrays``, computed before and not fused into what uses them."""
        return arrays

    def bicgstab(
        self, system: Callable, rhs: Any, *, tol: Any, maxiter: int, preconditioner: Any = None
    ) -> Any:
        """An approximate solution of ``system(x) = rhs``; ``preconditioner`` is a rough inverse."""
        from scipy.sparse.linalg import LinearOperator, bicgstab

        class FlatOperator(LinearOperator):
            """A function of arrays like ``rhs`` as one of vectors, without checks at each call."""

            def __init__(self, function):
                super().__init__(rhs.dtype, (rhs.size, rhs.size))
                self.function = function

            def matvec(self, x):
                return self.function(x.reshape(rhs.shape)).ravel()

            _matvec = matvec

        operator = None if preconditioner is None else FlatOperator(preconditioner)
        solution, _ = bicgstab(
            FlatOperator(system), rhs.ravel(), rtol=tol, maxiter=maxiter, M=operator
        )
        return solution.reshape(rhs.shape)


class JaxNamespace(ArrayNamespace):
    """JAX, within a function that is being compiled."""

    MAX_UNROLLED_STEPS = 8  # more steps than this are looped over, to keep compilation short

    @property
    def library(self):  # type: ignore[override]
        import jax.numpy as jnp

        return jnp

    @cached_property
    def lax(self):
        from jax import lax

        return lax

    def while_loop(self, condition, body, carry):
        return self.lax.while_loop(condition, body, carry)

    def iterate(self, count, body, carry):
        return self.lax.fori_loop(0, count, lambda _, carry: body(carry), carry)

    def branch(self, condition, if_true, if_false):
        return self.lax.cond(condition, if_true, if_false)

    def map_items(self, function, items):
        return self.lax.map(function, items)

    def fold(self, count, step, carry):
        if count <= self.MAX_UNROLLED_STEPS:
            return super().fold(count, step, carry)
        # A scan, not a fori_loop: only a scan can be transposed.
        indices = self.arange(count)
        return self.lax.scan(lambda carry, k: (step(k, carry), None), carry, indices)[0]

    def scan(self, step, carry, count, reverse=False):
        return self.lax.scan(step, carry, self.arange(count), reverse=reverse)[1]

    def put(self, array, index, value):
        return array.at[index].set(value)

    def add_at(self, array, index, value):
        return array.at[index].add(value)

    def without_fusion(self, arrays):
        return self.lax.optimization_barrier(arrays)

    def bicgstab(self, system, rhs, *, tol, maxiter, preconditioner=None):
        from jax.scipy.sparse.linalg import bicgstab

        return bicgstab(system, rhs, tol=tol, maxiter=maxiter, M=preconditioner)[0]


NUMPY = ArrayNamespace()
JAX = JaxNamespace()
HOST_TYPES = np.ndarray, np.generic, float  # types that JAX arrays do not have


def array_namespace(*arrays: Any) -> ArrayNamespace:
    """The namespace of ``arrays``: JAX's if one of them is a JAX array."""
    if len(arrays) == 1 and isinstance(arrays[0], HOST_TYPES):
        return NUMPY
    jax = sys.modules.get("jax")
    if jax is not None and any(isinstance(array, jax.Array) for array in arrays):
        return JAX
    return NUMPY


def with_host_arrays(*names: str) -> Callable[[type[Record]], type[Record]]:
    """A dataclass whose fields of these names may be given arrays on a device."""

    def decorate(kind: type[Record]) -> type[Record]:
        for name in names:
            setattr(kind, name, HostArrayField(name))
        return kind

    return decorate


class HostArrayField:
    """A field that is read as a NumPy array; an array on a device is copied at the first read.

    ``vars(record)[name]`` holds the array as it is stored.
    """

    def __init__(self, name: str) -> None:
        self.name = name

    def __get__(self, record: Any, owner: type | None = None) -> NDArray | HostArrayField:
        if record is None:
            return self
        stored = record.__dict__[self.name]
        if not isinstance(stored, np.ndarray):
            stored = record.__dict__[self.name] = np.asarray(stored)
        return stored

    def __set__(self, record: Any, array: Any) -> None:
        record.__dict__[self.name] = as_read_only(array) if isinstance(array, np.ndarray) else array


def as_read_only(array: NDArray) -> NDArray:
    """A view of the array that cannot be written to."""
    view = array.view()
    view.flags.writeable = False
    return view


def host_fields(record: Any) -> dict[str, Any]:
    """The fields of a record, all arrays as NumPy arrays: for pickles."""
    return {name: getattr(record, name) for name in vars(record)}
