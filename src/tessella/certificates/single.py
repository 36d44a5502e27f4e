"""The two linear systems of a policy of a large model: worth and occupancy.

    (I - discount P_pi) e = T_pi v - v,        (I - discount P_pi)' d = (1 - discount) mu.

BiCGSTAB on them needs only products with P_pi, and those take half the time in single precision. A
correction that is good to a few digits cuts the residual as many digits; the next starts from the
residual in double precision, which also gives the error bound. So rounding in the corrections
costs a little time and no accuracy: |V - V_pi| as in ``solvers.kernels``, ||d - d~||_1 at most
||residual||_1 / (1 - discount).
"""

from __future__ import annotations

from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.sparse.linalg import bicgstab
from numpy.typing import NDArray

from tessella.errors import NotConverged
from tessella.mdp.dynamics import over_actions
from tessella.mdp.engine import compiled, in_float64, on_device
from tessella.mdp.model import MDP
from tessella.solvers.driver import Engine

LARGE = 10_000  # below this many states double precision costs nothing that one would notice
NEAR_ONE = 0.999  # single precision loses about 1 / (1 - discount) of its seven digits
PLAIN = 100  # steps of the occupancy where a correction did not help


def suits(mdp: MDP) -> bool:
    return mdp.n_states > LARGE and mdp.discount <= NEAR_ONE


@dataclass(frozen=True)
class SinglePrecision:
    """A method for ``run`` with a fixed policy; its tolerance is the engine's."""

    max_sweeps: int = 100_000
    forcing: float = 1e-4
    max_products: int = 100

    safeguarded = True
    krylov = True

    def refine(self, program, model, state):
        residual = state.backup - state.value
        # What all states share is known without solving: a constant c adds c / (1 - discount).
        shared = (residual.max() + residual.min()) / 2
        scaled, scale = _scaled(residual - shared)
        product = _product(program, _single(model), state.policy)
        e, _ = bicgstab(product, scaled, tol=self.forcing, maxiter=self.max_products)
        point = state.value + shared / (1 - model.numbers.discount) + scale * e
        return jnp.where(jnp.isfinite(point).all(), point, state.backup)


@in_float64
def flow(
    mdp: MDP, table: NDArray[np.int32], start: NDArray[np.float64], tol: float
) -> tuple[NDArray[np.float64], float]:
    """(grid) occupancy, and a bound on the sum of its errors."""
    engine = Engine(mdp, None)
    factor, floor = 1 / engine.rest, engine.adjoint_floor
    policy, source = on_device((table, (1 - mdp.discount) * start))
    d, last = on_device(start), np.inf
    for _ in range(1_000):
        trial, size = _correct(engine.program, engine.model, policy, source, d)
        if not size < 0.9 * last:
            trial, size = _plain(engine.program, engine.model, policy, source, d)
        d, last = trial, float(size)
        if last * factor + floor <= max(tol, 2 * floor):
            return np.asarray(d), last * factor + floor
    raise NotConverged(f"occupancy: bound {last * factor + floor:.3g}, not {tol:.3g}")


@compiled("program")
def _correct(program, model, policy, source, d):
    """One correction of d, and the sum of what it leaves."""
    exact = jax.linear_transpose(_product(program, model, policy), source)
    rough = jax.linear_transpose(
        _product(program, _single(model), policy), source.astype(jnp.float32)
    )
    scaled, scale = _scaled(source - exact(d)[0])
    e, _ = bicgstab(lambda x: rough(x)[0], scaled, tol=1e-3, maxiter=150)
    trial = jnp.maximum(d + scale * e, 0.0)
    return trial, jnp.abs(source - exact(trial)[0]).sum()


@compiled("program")
def _plain(program, model, policy, source, d):
    """Steps of the process itself, and the sum of what they leave."""
    exact = jax.linear_transpose(_product(program, model, policy), source)

    def left(x):
        return source - exact(x)[0]

    d = jnp.maximum(jax.lax.fori_loop(0, PLAIN, lambda _, x: x + left(x), d), 0.0)
    return d, jnp.abs(left(d)).sum()


def _scaled(residual):
    """The residual in single precision, with its size taken out."""
    scale = jnp.maximum(jnp.abs(residual).max(), jnp.finfo(residual.dtype).tiny)
    return (residual / scale).astype(jnp.float32), scale


def _single(model):
    """The same model with its numbers in single precision."""

    def cast(x):
        return x.astype(jnp.float32) if jnp.issubdtype(x.dtype, jnp.floating) else x

    return jax.tree.map(cast, model)


def _product(program, model, policy):
    """x -> (I - discount P_pi) x, in the precision of x."""

    def product(x):
        w = program.tail(model.arrays, model.numbers.discount * x, False)

        def step(action, total):
            return jnp.where(policy == action, program.head(model.arrays, w, action, False), total)

        return x - over_actions(program, step, jnp.zeros_like(x))

    return product
