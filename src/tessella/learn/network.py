"""Training many small networks: cross-entropy, Adam, a cosine step.

    g(x) = W_L relu( ... relu(W_1 x + b_1) ... ) + b_L
    minimise  sum_i w_i l(g(x_i), y_i) / sum_i w_i,    rate_t = rate (1 + cos(pi t / T)) / 2

One output and the logistic loss for two classes, K outputs and cross-entropy otherwise. Shuffled
epochs are joined and cut into batches. All draws come from the network's own seed and no arithmetic
mixes networks, so a result does not depend on the networks that train along.

Arrays are padded to a power of two, and their lengths are passed as numbers, so that few shapes are
compiled. Arithmetic is in float32: twice as fast, with policies as accurate.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from itertools import groupby, pairwise

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax import lax
from numpy.typing import NDArray

from tessella.errors import ArgumentError, is_count, is_positive
from tessella.mdp.compilation import compile_per_shape


@dataclass(frozen=True)
class TrainingPlan:
    """A training plan, valid for every sample size."""

    hidden: tuple[int, ...]  # widths of the hidden layers
    learning_rate: float  # first step size; it falls to zero along a cosine
    epochs: int  # passes over the sample, at least
    min_steps: int  # steps, at least; decides for small samples
    # Observations in a batch, halved (twice at most) while an epoch has fewer than 16 batches.
    batch_size: int

    def __post_init__(self) -> None:
        whole = (*self.hidden, self.epochs, self.min_steps, self.batch_size)
        if not all(map(is_count, whole)) or not is_positive(self.learning_rate):
            requirement = (
                "numbers of a training plan must be positive, all but the learning rate whole"
            )
            raise ArgumentError(requirement, value=f"got {self}")

    def batch_size_for(self, n: int) -> int:
        """Observations in a batch of a sample of n."""
        batch = self.batch_size
        for _ in range(2):
            if n < 16 * batch and batch % 2 == 0:
                batch //= 2
        return batch

    def steps_for(self, n: int) -> int:
        return max(self.min_steps, -(-self.epochs * n // self.batch_size_for(n)))


NETWORKS_PER_CALL = 16  # networks in one compiled call
Layers = list[tuple[NDArray[np.float32], NDArray[np.float32]]]  # (weights (in, out), bias (out,))


@dataclass(frozen=True, eq=False)
class TrainingJob:
    """One network to train."""

    features: NDArray[np.float64]  # (n, m)
    labels: NDArray[np.integer]  # (n,)
    weights: NDArray[np.float64]  # (n,) non-negative, not all zero
    n_outputs: int
    rng: np.random.Generator

    @property
    def shape_key(self) -> tuple[int, int, int]:
        """Networks with equal keys share compiled code and numbers of steps."""
        return (len(self.features), self.features.shape[1], self.n_outputs)


def train_networks(jobs: Sequence[TrainingJob], plan: TrainingPlan) -> list[Layers]:
    """The trained layers of each job, in order."""
    layers: dict[int, Layers] = {}
    order = sorted(range(len(jobs)), key=lambda i: jobs[i].shape_key)
    for _, group in groupby(order, key=lambda i: jobs[i].shape_key):
        group = list(group)
        for chunk in (
            group[i : i + NETWORKS_PER_CALL] for i in range(0, len(group), NETWORKS_PER_CALL)
        ):
            layers.update(zip(chunk, _train_chunk([jobs[i] for i in chunk], plan), strict=True))
    return [layers[i] for i in range(len(jobs))]


def _train_chunk(jobs: Sequence[TrainingJob], plan: TrainingPlan) -> list[Layers]:
    n = len(jobs[0].features)
    batch_size = plan.batch_size_for(n)
    steps = plan.steps_for(n)
    # A job draws its start first and its shuffles second, from its own generator.
    initial_layers = [_init_layers(job, plan.hidden) for job in jobs]
    shuffles = [_shuffle_epochs(n, steps, batch_size, job.rng) for job in jobs]
    rate = plan.learning_rate * (1 + np.cos(np.pi * np.arange(steps) / steps)) / 2
    padded_length = _round_up_to_power(n, 1024)
    padded_steps = _round_up_to_power(steps, 1024)
    lanes = 1 if jax.default_backend() == "cpu" else NETWORKS_PER_CALL
    with jax.enable_x64(False):
        nets = _train(
            lanes,
            jax.tree.map(lambda *a: _stack(a), *initial_layers),
            _stack([job.features for job in jobs], padded_length, np.float32),
            _stack([job.labels for job in jobs], padded_length, np.int32),
            _stack([job.weights / job.weights.mean() for job in jobs], padded_length, np.float32),
            _stack(shuffles, padded_steps, np.int32),
            _pad(rate.astype(np.float32), padded_steps),
            steps,
            len(jobs),
        )
        nets = jax.tree.map(np.asarray, nets)
    return [jax.tree.map(lambda a, i=i: a[i], nets) for i in range(len(jobs))]


def _init_layers(job: TrainingJob, hidden: tuple[int, ...]) -> Layers:
    """He's uniform start: variance 2 / inputs, biases zero."""
    sizes = (job.features.shape[1], *hidden, job.n_outputs)
    return [
        (
            job.rng.uniform(-1, 1, (a, b)).astype(np.float32) * np.sqrt(6 / a, dtype=np.float32),
            np.zeros(b, np.float32),
        )
        for a, b in pairwise(sizes)
    ]


def _shuffle_epochs(n: int, steps: int, batch: int, rng: np.random.Generator) -> NDArray[np.int32]:
    """(steps, batch) observations: shuffled epochs, one after another."""
    epochs = -(-steps * batch // n)
    stream = np.concatenate([rng.permutation(n) for _ in range(epochs)])
    return stream[: steps * batch].reshape(steps, batch).astype(np.int32)


def _round_up_to_power(n: int, minimum: int) -> int:
    return max(minimum, 1 << (n - 1).bit_length())


def _pad(array: NDArray, length: int) -> NDArray:
    return np.pad(array, [(0, length - len(array)), *[(0, 0)] * (array.ndim - 1)])


def _stack(arrays: Sequence[NDArray], length: int = 0, dtype: type = np.float32) -> NDArray:
    """Padded to ``length`` each, and to NETWORKS_PER_CALL in number."""
    return _pad(
        np.stack([_pad(a.astype(dtype), length or len(a)) for a in arrays]), NETWORKS_PER_CALL
    )


@compile_per_shape("lanes")
def _train(lanes, nets, X, y, w, order, rate, steps, count):
    """``count`` networks, ``lanes`` at a time; each array has NETWORKS_PER_CALL entries."""
    train_lanes = jax.vmap(_train_one, in_axes=(0, 0, None, None))

    def body(i, nets):
        take = partial(lax.dynamic_slice_in_dim, start_index=i * lanes, slice_size=lanes)
        chunk, data = jax.tree.map(take, (nets, (X, y, w, order)))
        new = train_lanes(chunk, data, rate, steps)
        put = partial(lax.dynamic_update_slice_in_dim, start_index=i * lanes, axis=0)
        return jax.tree.map(put, nets, new)

    return lax.fori_loop(0, (count + lanes - 1) // lanes, body, nets)


def _train_one(net, data, rate, steps):
    X, y, w, order = data
    adam = optax.scale_by_adam()

    def body(t, carry):
        net, adam_state = carry
        rows = order[t]
        gradient = jax.grad(_loss)(net, X[rows], y[rows], w[rows])
        step, adam_state = adam.update(gradient, adam_state)
        return jax.tree.map(lambda p, s: p - rate[t] * s, net, step), adam_state

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
