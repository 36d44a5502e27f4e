"""Random stages: staged dynamics agree with a slow scalar loop."""

from __future__ import annotations

import inspect

import jax
import jax.numpy as jnp
import numpy as np
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from tessella.mdp.compilation import in_float64
from tessella.mdp.model import MDP
from tessella.mdp.stages import Decide, Jump, Move, Noise, Pay, Shift


def depends(names, table):
    """A function of ``names`` that looks its result up: names have values 0, 1, 2, ..."""

    def look_up(**given):
        where = np.broadcast_arrays(*(np.asarray(given[name]) for name in names))
        return table[tuple(where)] if names else table

    kind = inspect.Parameter.KEYWORD_ONLY
    look_up.__signature__ = inspect.Signature([inspect.Parameter(name, kind) for name in names])
    return look_up


@st.composite
def stories(draw):
    """Axes, actions and up to four stages with random tables."""
    shape = draw(st.lists(st.integers(1, 4), min_size=1, max_size=3))
    axes = {f"x{i}": list(range(n)) for i, n in enumerate(shape)}
    n_actions = draw(st.integers(1, 3))
    sizes = {name: len(values) for name, values in axes.items()} | {"action": n_actions}
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))

    def some(names):
        return [name for name in names if draw(st.booleans())]

    def rewards(extra=None):
        if draw(st.booleans()):
            return None
        names = some(sizes) + ([extra[0]] if extra and draw(st.booleans()) else [])
        lengths = sizes | dict([extra] if extra else [])
        return depends(names, np.round(rng.normal(size=[lengths[n] for n in names]), 3))

    def law(name, count):
        names = some(sizes)
        raw = rng.dirichlet(np.ones(count), [sizes[n] for n in names]) if names else None
        if raw is None:
            return Noise(name, range(count), rng.dirichlet(np.ones(count)))
        look_up = depends(names, raw)

        def probabilities(**given):
            return look_up(**{n: np.asarray(v)[..., 0] for n, v in given.items()})

        probabilities.__signature__ = look_up.__signature__
        return Noise(name, range(count), probabilities)

    def stage(kind):
        axis = draw(st.sampled_from(list(axes)))
        n, count = sizes[axis], draw(st.integers(1, 3))
        if kind == "pay":
            return Pay(rewards() or depends([], np.array(1.5)))
        if kind == "decide":
            names = some(sizes)
            to = rng.integers(n, size=[sizes[m] for m in names])
            return Decide(axis, depends(names, to), rewards())
        if kind == "shift":
            names = ["w", *some(["action"])]
            lengths = {"w": count, "action": n_actions}
            by = rng.integers(-6, 7, size=[lengths[m] for m in names])
            edge = draw(st.sampled_from(["clip", "reflect", "wrap"]))
            return Shift(axis, law("w", count), depends(names, by), edge, rewards(("w", count)))
        if kind == "move":
            names = some([m for m in sizes if m != axis])
            if not names:
                return Move(axis, rng.dirichlet(np.ones(n), n), rewards())
            table = rng.dirichlet(np.ones(n), [*(sizes[m] for m in names), n])
            look_up = depends(names, table)

            def matrix(**given):
                return look_up(**{m: np.asarray(v)[..., 0, 0] for m, v in given.items()})

            matrix.__signature__ = look_up.__signature__
            return Move(axis, matrix, rewards())
        moved = some(axes) or [axis]
        names = some(sizes)
        maps = {
            m: depends(
                [*names, "w"], rng.integers(sizes[m], size=[*(sizes[k] for k in names), count])
            )
            for m in moved
        }

        def to(**given):
            return {m: look_up(**given) for m, look_up in maps.items()}

        to.__signature__ = maps[moved[0]].__signature__
        return Jump(law("w", count), to, rewards(("w", count)))

    kinds = st.lists(
        st.sampled_from(["pay", "decide", "shift", "move", "jump"]), min_size=1, max_size=4
    )
    return axes, tuple(range(n_actions)), [stage(kind) for kind in draw(kinds)]


@in_float64
def backups(mdp, w):
    lowered = mdp.dynamics.compile()
    with jax.disable_jit():
        tail = lowered.backend.shared_backup(lowered.arrays, jnp.asarray(w), True)
        return [
            np.broadcast_to(lowered.backend.action_backup(lowered.arrays, tail, a, True), w.shape)
            for a in range(mdp.n_actions)
        ]


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(story=stories())
def test_any_story_agrees_with_its_slow_reading(make_world, story):
    world = make_world("any", *story)
    P, r, _ = world.arrays
    mdp = world.staged
    got = mdp.to_arrays()
    np.testing.assert_allclose(got.transition, P, rtol=0, atol=1e-12)
    np.testing.assert_allclose(got.reward, r, rtol=0, atol=1e-12)
    w = np.random.default_rng(0).normal(size=mdp.grid.shape)
    for a, q in enumerate(backups(mdp, w)):
        np.testing.assert_allclose(q.ravel(), r[:, a] + P[a] @ w.ravel(), rtol=0, atol=1e-12)
    assert mdp.dynamics.reward_scale >= np.abs(r).max() - 1e-12


@in_float64
def backup_under(mdp, w, policy):
    lowered = mdp.dynamics.compile()
    with jax.disable_jit():
        return np.asarray(
            lowered.backend.policy_backup(lowered.arrays, jnp.asarray(w), jnp.asarray(policy), True)
        )


@settings(max_examples=20, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(story=stories(), count=st.integers(1, 2))
def test_a_story_with_scratch_axes_is_the_whole_story_opened_and_summed_out(story, count):
    axes, actions, stages = story
    assume(len(axes) > count)
    names = list(axes)
    kept = {name: axes[name] for name in names[:-count]}
    scratch = {name: axes[name] for name in names[-count:]}
    mdp = MDP.staged(kept, actions, 0.9, stages, scratch=scratch)
    whole = MDP.staged(axes, actions, 0.9, stages).to_arrays()
    n, others = mdp.n_states, int(np.prod([len(v) for v in scratch.values()]))
    P = whole.transition.reshape(len(actions), n, others, n, others)[:, :, 0].sum(axis=-1)
    r = whole.reward.reshape(n, others, -1)[:, 0]
    got = mdp.to_arrays()
    assert mdp.grid.axes == tuple(kept)
    np.testing.assert_allclose(got.transition, P, rtol=0, atol=1e-12)
    np.testing.assert_allclose(got.reward, r, rtol=0, atol=1e-12)
    rng = np.random.default_rng(0)
    w = rng.normal(size=mdp.grid.shape)
    for a, q in enumerate(backups(mdp, w)):
        np.testing.assert_allclose(q.ravel(), r[:, a] + P[a] @ w.ravel(), rtol=0, atol=1e-12)
    policy, at = rng.integers(len(actions), size=mdp.grid.shape), np.arange(n)
    expected = r[at, policy.ravel()] + P[policy.ravel(), at] @ w.ravel()
    got = backup_under(mdp, w, policy).ravel()
    np.testing.assert_allclose(got, expected, rtol=0, atol=1e-12)
