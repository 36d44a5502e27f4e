"""The certificate of a total: what it states is true in rational arithmetic, and checked."""

from __future__ import annotations

import contextlib
import io
import json
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from support.criteria import build_ending, compute_optimum, compute_policy_value

import tessella as ts
from tessella.checker import check

VECTORS = ("optimal_lower", "optimal_upper", "policy_lower", "policy_upper")


def some_policy(mdp: ts.MDP, seed: int) -> np.ndarray:
    """Any policy of an odd seed; of an even one that which surely ends."""
    actions = np.random.default_rng(seed).integers(mdp.n_actions, size=mdp.n_states)
    return actions if seed % 2 else 0 * actions


def checked(folder, mdp: ts.MDP, certificate: ts.Certificate) -> tuple[int, str]:
    mdp.save(folder / "model.nc")
    certificate.save(folder / "certificate.json")
    with contextlib.redirect_stdout(io.StringIO()) as said:
        status = check.main([str(folder / n) for n in ("model.nc", "certificate.json")])
    return status, said.getvalue()


def inside(lower, exact, upper) -> bool:
    ends = zip(np.ravel(lower), exact, np.ravel(upper), strict=True)
    return all(Fraction(float(low)) <= x <= Fraction(float(high)) for low, x, high in ends)


@pytest.mark.parametrize("seed", range(12))
def test_what_a_certificate_of_a_total_states_is_true_narrow_and_holds(tmp_path, seed):
    mdp = build_ending(seed)
    solution = ts.solve(mdp)
    best = compute_optimum(mdp, solution.policy.table)
    for table in (solution.policy.table, some_policy(mdp, seed)):
        found = ts.certify(solution, table)
        own = compute_policy_value(mdp, table)
        bounds = found.value_bounds
        lost = [b - w for b, w in zip(best, own, strict=True)]
        assert inside(bounds.optimal_lower, best, bounds.optimal_upper)
        assert inside(bounds.policy_lower, own, bounds.policy_upper)
        assert inside(found.worst_loss.lower, [max(lost)], found.worst_loss.upper)
        mean = sum(Fraction(float(p)) * x for p, x in zip(found.start.ravel(), lost, strict=True))
        assert inside(found.mean_loss.lower, [mean], found.mean_loss.upper)
        scale = 1 + max(map(abs, map(float, (*best, *own))))
        assert max(found.mean_loss.width, found.worst_loss.width) <= 1e-9 * scale
        status, said = checked(tmp_path, mdp, found)
        assert status == 0, said
        again = ts.Certificate.load(tmp_path / "certificate.json")
        assert again.worst_loss.upper == found.worst_loss.upper


@pytest.mark.parametrize("part", VECTORS)
@pytest.mark.parametrize("seed", range(4))
def test_a_vector_that_is_moved_past_the_value_that_it_bounds_is_rejected(tmp_path, part, seed):
    mdp = build_ending(seed)
    solution = ts.solve(mdp)
    found = ts.certify(solution, solution.policy)
    inward = -1 if part.endswith("upper") else 1
    bounds = found.value_bounds
    going_on = getattr(bounds, part) != 0
    width = bounds.optimal_upper - bounds.optimal_lower
    for by in (2 * width.max(), 1e-6, 1.0):
        moved = {part: getattr(bounds, part) + inward * by * going_on}
        forged = replace(found, value_bounds=replace(bounds, **moved))
        status, said = checked(tmp_path, mdp, forged)
        assert (status, said.startswith(f"REJECTED: value_bounds.{part} does not prove")) == (
            1,
            True,
        ), said


@pytest.mark.parametrize("figure", ["mean_loss", "worst_loss", "optimal_mean", "policy_mean"])
def test_a_figure_that_claims_less_than_its_vectors_prove_is_rejected(tmp_path, figure):
    mdp = build_ending(1)
    found = ts.certify(ts.solve(mdp), some_policy(mdp, 1))
    checked(tmp_path, mdp, found)
    content = json.loads((tmp_path / "certificate.json").read_text())
    for end, sign in ((1, 1), (2, -1)):
        forged = json.loads(json.dumps(content))
        size = 1e-9 * (1 + abs(forged[figure][end]))
        forged[figure][end] += sign * size
        forged[figure][0] = min(max(forged[figure][0], forged[figure][1]), forged[figure][2])
        (tmp_path / "certificate.json").write_text(json.dumps(forged))
        arguments = [str(tmp_path / n) for n in ("model.nc", "certificate.json")]
        assert check.main(arguments) == 1


def test_a_loop_that_costs_nothing_leaves_no_proof_of_a_bound(tmp_path):
    """Waiting is free and never ends: T U < U can hold nowhere on the loop."""
    rows = np.array([[[1.0, 0.0], [0.0, 1.0]], [[0.0, 1.0], [0.0, 1.0]]])
    costly = ts.MDP.from_arrays(rows, [[-1e-3, -1.0], [0.0, 0.0]], ts.Total())
    found = ts.certify(ts.solve(costly), [1, 0])
    assert checked(tmp_path, costly, found)[0] == 0
    free = ts.MDP.from_arrays(rows, [[0.0, -1.0], [0.0, 0.0]], ts.Total())
    forged = replace(found, mdp=free, fingerprint=free.fingerprint)
    status, said = checked(tmp_path, free, forged)
    assert status == 1
    assert "optimal_upper does not prove" in said


def test_a_rule_of_a_total_carries_a_certificate_that_is_saved_and_holds(tmp_path):
    mdp = build_ending(3)
    rule = ts.compress(ts.solve(mdp), loss=0.5)
    assert isinstance(rule.certificate, ts.Certificate)
    assert rule.facts["worst_loss"] == rule.certificate.worst_loss.upper
    assert checked(tmp_path, mdp, rule.certificate)[0] == 0
    assert "until the end" in rule.certificate.summary()


def test_single_decisions_are_not_asked_about():
    mdp = build_ending(0)
    with pytest.raises(ts.ArgumentError, match="a certificate of total reward has none"):
        ts.certify(ts.solve(mdp), mdp.feasible_mask.argmax(axis=1), eps=0.1)
