"""The compiled side of dynamics: backward passes in JAX.

An operation is a frozen description (axis, sizes, whether it depends on the action); its numbers
come in as arrays with a leading action axis of length A, or 1 where all actions share them. Every
operation is linear in ``w`` apart from the reward that it pays, so ``jax.linear_transpose`` of a
pass with ``pay=False`` is the forward (occupancy) pass.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

import jax
import jax.numpy as jnp
from jax import lax

UNROLLED_ACTIONS = 8  # more actions than this are looped over, to keep compilation short


class Operation(Protocol):
    acts: bool

    def apply(self, arrays, w, action): ...


def of_action(array, action):
    """The slice for ``action`` of an array that may be shared by all."""
    if array.shape[0] == 1:
        return array[0]
    return lax.dynamic_index_in_dim(array, action, 0, keepdims=False)


@dataclass(frozen=True)
class Slices:
    """``sum_k p_k * w[x + offset_k]`` along one axis, by slices of a padded array."""

    axis: int
    acts: bool

    def apply(self, arrays, w, action):
        pad, offsets, probs = arrays["pad"], arrays["offsets"], arrays["probs"]
        padded = jnp.take(w, pad, axis=self.axis, mode="clip")
        size = w.shape[self.axis]

        def add(total, term):
            offset, p = term
            return total + p * lax.dynamic_slice_in_dim(padded, offset, size, self.axis), None

        terms = of_action(offsets, action), of_action(probs, action)
        return lax.scan(add, jnp.zeros_like(w), terms)[0]


@dataclass(frozen=True)
class Gather:
    """``w[target(x)]`` along one axis."""

    axis: int
    acts: bool

    def apply(self, arrays, w, action):
        target = of_action(arrays["target"], action)
        if target.size == target.shape[self.axis]:
            return jnp.take(w, target.ravel(), axis=self.axis, mode="clip")
        shape = list(w.shape)
        shape[self.axis] = target.shape[self.axis]
        full = jnp.broadcast_to(target, shape)
        return jnp.take_along_axis(w, full, axis=self.axis, mode="clip")


@dataclass(frozen=True)
class Matrix:
    """``sum_x' M[x, x'] w[x']`` along one axis; M may depend on the other axes."""

    axis: int
    acts: bool

    def apply(self, arrays, w, action):
        matrix = of_action(arrays["matrix"], action)  # (*given, n, n), given axis of length 1
        moved = jnp.moveaxis(w, self.axis, -1)
        if matrix.ndim == 2:
            out = moved @ matrix.T
        else:
            out = jnp.einsum("...xy,...y->...x", matrix, moved)
        return jnp.moveaxis(out, -1, self.axis)


@dataclass(frozen=True)
class Scatter:
    """``sum_k p_k * w[target_k(s)]`` over whole states."""

    acts: bool

    def apply(self, arrays, w, action):
        flat = w.ravel()

        def add(total, term):
            target, p = term
            return total + p * jnp.take(flat, target, mode="clip"), None

        terms = of_action(arrays["target"], action), of_action(arrays["probs"], action)
        return lax.scan(add, jnp.zeros_like(w), terms)[0]


@dataclass(frozen=True)
class Stay:
    """Nothing moves; for stages that only pay."""

    acts: bool

    def apply(self, arrays, w, action):
        return w


@dataclass(frozen=True)
class StagedProgram:
    """Operations in the order of events; the backward pass runs through them from the last."""

    operations: tuple[Operation, ...]
    n_actions: int

    @property
    def first_shared(self) -> int:
        """Operations from here to the end depend on no action."""
        shared = len(self.operations)
        while shared and not self.operations[shared - 1].acts:
            shared -= 1
        return shared

    def _back(self, arrays, w, action, pay, span):
        for i in reversed(span):
            w = self.operations[i].apply(arrays[i], w, action)
            if pay and "reward" in arrays[i]:
                w = w + of_action(arrays[i]["reward"], action)
        return w

    def tail(self, arrays, w_S, pay):
        return self._back(arrays, w_S, 0, pay, range(self.first_shared, len(self.operations)))

    def head(self, arrays, w, action, pay):
        return self._back(arrays, w, action, pay, range(self.first_shared))


@dataclass(frozen=True)
class DenseRows:
    """``rows @ w`` with (n_rows, S) dense rows."""

    def product(self, arrays, flat):
        return arrays["rows"] @ flat


@dataclass(frozen=True)
class SparseRows:
    """Rows cut into chunks of equal width; ``split`` when some row needs more than one chunk."""

    n_rows: int
    split: bool

    def product(self, arrays, flat):
        chunks = (arrays["probs"] * jnp.take(flat, arrays["columns"], mode="clip")).sum(axis=1)
        if not self.split:
            return chunks
        return jax.ops.segment_sum(
            chunks, arrays["row_of_chunk"], self.n_rows, indices_are_sorted=True
        )


@dataclass(frozen=True)
class TabularProgram:
    """Each distinct row once; a state and action look theirs up."""

    rows: DenseRows | SparseRows
    n_actions: int
    shape: tuple[int, ...]

    def tail(self, arrays, w_S, pay):
        return self.rows.product(arrays, w_S.ravel())

    def head(self, arrays, w, action, pay):
        row = lax.dynamic_index_in_dim(arrays["row_of"], action, 0, keepdims=False)
        q_S = jnp.take(w, row, mode="clip")
        if pay:
            q_S = q_S + lax.dynamic_index_in_dim(arrays["reward"], action, 0, keepdims=False)
        return q_S.reshape(self.shape)


def over_actions(program, step, start) -> Any:
    """Fold ``step(action, carry)`` over all actions: unrolled when they are few."""
    if program.n_actions <= UNROLLED_ACTIONS:
        carry = start
        for action in range(program.n_actions):
            carry = step(action, carry)
        return carry
    # A scan, not a fori_loop: only a scan can be transposed.
    return lax.scan(lambda c, a: (step(a, c), None), start, jnp.arange(program.n_actions))[0]
