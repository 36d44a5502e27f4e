"""Training a small network: cross-entropy, Adam, a cosine step.

    g(x) = W_L relu( ... relu(W_1 x + b_1) ... ) + b_L
    minimise  sum_i w_i l(g(x_i), y_i) / sum_i w_i,    rate_t = rate (1 + cos(pi t / T)) / 2

One output and the logistic loss for two classes, K outputs and cross-entropy otherwise. Shuffled
epochs are joined and cut into batches.

Arrays are padded to a power of two, and the number of steps is passed as a number, so that few
shapes are compiled. Arithmetic is in float32: twice as fast, with policies as accurate. It is done
on the processor: such a network is too small for an accelerator.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax import lax
from numpy.typing import NDArray

from tessella.mdp.compilation import compile_per_shape

PADDED_MIN_LENGTH = 1024  # entries of a padded array
Layers = list[tuple[NDArray[np.float32], NDArray[np.float32]]]  # (weights (in, out), bias (out,))


def init_layers(sizes: tuple[int, ...], rng: np.random.Generator) -> Layers:
    """He's uniform start: variance 2 / inputs, biases zero."""
    return [
        (
            rng.uniform(-1, 1, (a, b)).astype(np.float32) * np.sqrt(6 / a, dtype=np.float32),
            np.zeros(b, np.float32),
        )
        for a, b in pairwise(sizes)
    ]


def shuffle_epochs(n: int, steps: int, batch: int, rng: np.random.Generator) -> NDArray[np.int32]:
    """(steps, batch) observations: shuffled epochs, one after another."""
    epochs = -(-steps * batch // n)
    stream = np.concatenate([rng.permutation(n) for _ in range(epochs)])
    return stream[: steps * batch].reshape(steps, batch).astype(np.int32)


def train_layers(
    start: Layers, X: NDArray, y: NDArray, w: NDArray, order: NDArray[np.int32], rate: float
) -> Layers:
    """The layers after a step with each batch of ``order``.

    Args:
        X, y, w: features (n, m), labels (n,) and weights (n,), not all zero.
        rate: the first step size.
    """
    steps = len(order)
    rates = rate * (1 + np.cos(np.pi * np.arange(steps) / steps)) / 2
    arrays = (
        X.astype(np.float32),
        y.astype(np.int32),
        (w / w.mean()).astype(np.float32),
        order,
        rates.astype(np.float32),
    )
    with jax.enable_x64(False), jax.default_device(_find_processor()):
        return jax.tree.map(np.asarray, _train(start, *map(_pad, arrays), steps))


def _pad(array: NDArray) -> NDArray:
    length = max(PADDED_MIN_LENGTH, 1 << (len(array) - 1).bit_length())
    return np.pad(array, [(0, length - len(array)), *[(0, 0)] * (array.ndim - 1)])


def _find_processor() -> Any:
    try:
        return jax.local_devices(backend="cpu")[0]
    except RuntimeError:  # a setting of the user's has JAX leave it out
        return None


@compile_per_shape()
def _train(net, X, y, w, order, rates, steps):
    adam = optax.scale_by_adam()

    def body(t, carry):
        net, adam_state = carry
        rows = order[t]
        gradient = jax.grad(_loss)(net, X[rows], y[rows], w[rows])
        step, adam_state = adam.update(gradient, adam_state)
        return jax.tree.map(lambda p, s: p - rates[t] * s, net, step), adam_state

    return lax.fori_loop(0, steps, body, (net, adam.init(net)))[0]


def _loss(net, X, y, w):
    *hidden, (W, b) = net
    for V, a in hidden:
        X = jax.nn.relu(X @ V + a)
    z = X @ W + b
    if z.shape[1] == 1:
        losses = jax.nn.softplus(jnp.where(y == 1, -z[:, 0], z[:, 0]))
    else:
        losses = jax.nn.logsumexp(z, axis=1) - (z * jax.nn.one_hot(y, z.shape[1])).sum(axis=1)
    return (w * losses).sum() / w.sum()
