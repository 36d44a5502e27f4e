"""A user-defined criterion, and what every criterion states about itself."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import pytest

import tessella as ts


@dataclass(frozen=True)
class Taxed(ts.Discounted):
    """Discounted rewards, of which a share is paid as tax."""

    rewrites_model = True
    share: float = 0.25

    def __str__(self) -> str:
        return f"reward taxed by {self.share:g}"

    def transform(self, parts, minimise):
        reward = (1 - self.share) * parts.dynamics.reward
        return replace(parts, dynamics=replace(parts.dynamics, reward=reward)), self


@pytest.fixture(scope="module")
def mdp():
    rng = np.random.default_rng(0)
    rows = rng.dirichlet(np.ones(4), (2, 4))
    return ts.MDP.from_arrays(rows, rng.normal(size=(4, 2)), 0.9)


def test_flags_and_periods_state_the_kind_of_a_criterion():
    flags = "is_discounted", "has_gain", "requires_absorption", "has_horizon", "rewrites_model"
    stated = {
        str(criterion): [flag for flag in flags if getattr(criterion, flag)]
        for criterion in (ts.Discounted(0.9), ts.Average(), ts.Total(), ts.FiniteHorizon(3))
    }
    assert stated == {
        "discount 0.9": ["is_discounted"],
        "average reward": ["has_gain"],
        "total reward": ["requires_absorption"],
        "horizon of 3 periods": ["has_horizon", "rewrites_model"],
    }
    assert [c.periods for c in (ts.Average(), ts.FiniteHorizon(3))] == [None, 3]
    with pytest.raises(TypeError, match="periods"):
        ts.FiniteHorizon()


def test_a_criterion_that_rewrites_the_model_is_solved_saved_and_certified(mdp, tmp_path):
    taxed = mdp.with_observation_noise(0.5).with_criterion(Taxed(0.9))
    solution = ts.solve(taxed)
    np.testing.assert_allclose(solution.value, 0.75 * ts.solve(mdp).value, rtol=1e-12)
    assert taxed.observation_noise == (0.5,)
    assert ts.certify(solution, solution.policy).mean_loss.lower <= 0
    taxed.save(tmp_path / "model.nc")
    loaded = ts.MDP.load(tmp_path / "model.nc")
    assert loaded.fingerprint == taxed.fingerprint
    np.testing.assert_array_equal(ts.solve(loaded).value, solution.value)


def test_a_rewritten_model_is_built_again_for_another_criterion(mdp):
    message = "a model with a reward taxed by 0.25 must be built again for another criterion"
    with pytest.raises(ts.ModelError, match=message):
        mdp.with_criterion(Taxed(0.9)).with_criterion(0.8)
