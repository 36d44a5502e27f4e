"""The smallest rule that satisfies constraints: proven, checked, exported."""

from __future__ import annotations

import json
import re
import runpy
from dataclasses import replace

import numpy as np
import pytest

import tessella as ts
from tessella.certificates.certificate import Certificate
from tessella.certificates.constrained import certify_constrained, replace_reward, weigh_exactly
from tessella.checker import main
from tessella.criteria.criterion import Criterion
from tessella.mdp.netcdf import rebuild_from_contents
from tessella.rounding import round_up
from tessella.rules.order_up_to import OrderUpTo
from tessella.solvers.policy_evaluation import evaluate_sum

LOSS = 0.02


def evaluate_densely(mdp: ts.MDP, table: np.ndarray, name: str) -> float:
    """The expected discounted sum of a count from the start, by one dense linear system."""
    states = np.arange(mdp.n_states)
    matrices = np.stack([matrix.toarray() for matrix in mdp.to_sparse().transition])
    amounts = mdp.with_objective({name: 1.0}).to_sparse().reward[states, table]
    rows = matrices[table, states]
    values = np.linalg.solve(np.eye(mdp.n_states) - mdp.discount * rows, amounts)
    return float(values.mean())


@pytest.fixture(scope="module")
def inventory() -> ts.MDP:
    return ts.inventory(shortage_cost=0.0)


@pytest.fixture(scope="module")
def small() -> ts.MDP:
    return ts.inventory(shortage_cost=0.0, max_stock=12, max_regime=2)


@pytest.fixture(scope="module", params=[0.9, 0.95, 0.98])
def compressed(request, inventory):
    constraint = {"fill_rate": ts.AtLeast(request.param)}
    result = ts.solve(inventory, subject_to=constraint)
    return request.param, result, ts.compress(result, LOSS, classes=[OrderUpTo()])


def test_the_rule_satisfies_the_constraint(inventory, compressed):
    level, result, rule = compressed
    table = rule.table.ravel()
    lost, demand = (evaluate_densely(inventory, table, name) for name in ("lost", "demand"))
    reward = evaluate_densely(inventory, table, "reward")
    print(f"fill rate {level}: {rule.size} numbers, {reward / result.high - 1:.4%} above the bound")
    assert 1 - lost / demand >= level
    assert reward <= result.high
    assert result.high - reward <= LOSS * abs(result.high)
    assert rule.size <= 3
    assert rule.facts["mean_loss"] >= result.high - reward - 1e-9


def test_the_rule_says_what_is_proven(compressed):
    level, _, rule = compressed
    assert rule.facts["constraints"].endswith(f", at least {level:g}")
    assert f"Proven: {rule.facts['constraints']}." in rule.explain()
    assert f"fill_rate at least {level:g}, and a loss of at most 2%" in rule.explain()


def test_its_export_agrees_in_every_state(inventory, compressed, tmp_path):
    _, _, rule = compressed
    path = tmp_path / "rule.py"
    rule.export(path)
    assert f"certified: {rule.facts['constraints']}" in path.read_text()
    decide = runpy.run_path(str(path))["decide"]
    names = inventory.grid.axes
    answers = [decide(**dict(zip(names, p, strict=True))) for p in inventory.grid.points.tolist()]
    expected = [rule.actions[a] for a in rule.table.ravel()]
    assert answers == expected


def test_the_file_of_the_rule_is_read_back(compressed, tmp_path):
    _, _, rule = compressed
    rule.save(tmp_path / "rule.json")
    assert ts.Rule.load(tmp_path / "rule.json").explain() == rule.explain()


def test_the_checker_confirms_the_certificate_of_the_rule(inventory, compressed, tmp_path, capsys):
    level, _, rule = compressed
    inventory.save(tmp_path / "model.nc")
    rule.certificate.save(tmp_path / "c.json")
    assert main([str(tmp_path / "model.nc"), str(tmp_path / "c.json")]) == 0
    said = capsys.readouterr().out
    assert "fill_rate = (1 demand + -1 lost) / (1 demand) is at least 0.9" in said
    assert f"where {level:g} is requested; no policy that satisfies this earns over" in said
    _, first, second = rule.certificate.summary().split("\n\n")[:3]
    text = " ".join(first.split())
    assert text.startswith("Constraints: fill_rate is at least 0.9")
    assert f"(required: at least {level:g}). This policy reaches -3" in text
    assert f"by over {round_up(rule.certificate.constrained.loss, 4)} (at most " in text
    assert second.startswith("Cost: ")


CRITERIA = [None, "average", "horizon", "total"]


def make_walk() -> ts.MDP:
    """A walk to an end, slowly, or quickly at a price; steps are counted."""
    n = 12
    slow, quick = (np.eye(n, k=-1) * p + np.diag(np.full(n, 1 - p)) for p in (0.4, 0.9))
    for rows in (slow, quick):
        rows[0] = np.eye(n)[0]
    on_the_way = np.arange(n) > 0
    reward = np.stack([-0.1 * on_the_way, -1.0 * on_the_way], axis=1)
    arrays = ts.MDP.from_arrays(np.stack([slow, quick]), reward, criterion=ts.Total())
    return arrays.with_measures(steps=np.broadcast_to(1.0 * on_the_way[:, None], (n, 2)))


def solve_small(small: ts.MDP, kind: str | None):
    if kind == "total":
        walk = make_walk()
        return walk, ts.solve(walk, subject_to={"steps": ts.AtMost(10.0)})
    criteria = {"average": ts.Average(), "horizon": ts.FiniteHorizon(6)}
    mdp = small if kind is None else small.with_criterion(criteria[kind])
    bounds = {"fill_rate": ts.AtLeast(0.9), "lost": ts.AtMost(1e3)}
    return mdp, ts.solve(mdp, subject_to=bounds)


@pytest.mark.parametrize("kind", CRITERIA)
def test_certificates_of_all_criteria_hold_and_are_read_back(small, kind, tmp_path, capsys):
    mdp, result = solve_small(small, kind)
    certificate = certify_constrained(result, result.policy)
    assert certificate is not None
    assert certificate.constrained is not None
    expected = result.high - result.best.reward.value
    assert certificate.constrained.loss == pytest.approx(expected, rel=1e-6)
    mdp.save(tmp_path / "model.nc")
    certificate.save(tmp_path / "c.json")
    code = main([str(tmp_path / "model.nc"), str(tmp_path / "c.json")])
    assert code == 0, capsys.readouterr().out
    Certificate.load(tmp_path / "c.json").save(tmp_path / "again.json")
    assert (tmp_path / "again.json").read_text() == (tmp_path / "c.json").read_text()


def make_queue(interest: float | Criterion) -> ts.MDP:
    arrival = ts.Event(
        "arrival",
        2.0,
        to=lambda queue, action: {"queue": np.minimum(queue + (action == 0), 7)},
        counts={"rejected": lambda queue, action: 1.0 * ((action == 1) | (queue == 7))},
    )
    service = ts.Event(
        "service",
        lambda queue: 3.0 * (queue > 0),
        to=lambda queue: {"queue": np.maximum(queue - 1, 0)},
    )
    return ts.MDP.from_rates(
        {"queue": range(8)},
        [0, 1],
        [arrival, service],
        pays_rate=lambda queue: -1.0 * queue,
        interest=interest,
    )


def test_a_model_made_from_rates_states_averages_per_unit_of_time(tmp_path):
    mdp = make_queue(ts.Average())
    result = ts.solve(mdp, subject_to={"rejected": ts.AtMost(0.4)})
    certificate = certify_constrained(result, result.policy)
    mdp.save(tmp_path / "model.nc")
    certificate.save(tmp_path / "c.json")
    assert main([str(tmp_path / "model.nc"), str(tmp_path / "c.json")]) == 0
    value = ts.evaluate(mdp, result.policy).measures["rejected"].value
    proven = certificate.constrained.constraints[0].proven["at_most"]
    assert value <= proven == pytest.approx(value, abs=1e-7)


@pytest.mark.parametrize(("interest", "unit"), [(ts.Average(), " per unit of time"), (0.1, "")])
def test_a_rule_of_a_model_made_from_rates_states_its_loss_as_the_model_does(interest, unit):
    mdp = make_queue(interest)
    level = 0.4 if unit else 4.0
    result = ts.solve(mdp, subject_to={"rejected": ts.AtMost(level)})
    rule = ts.compress(result, 0.5)
    reward = evaluate_sum(mdp, rule, {"reward": 1.0}).value
    shown = re.search(r"earns at most (\S+)(.*?) less", rule.explain())
    assert float(shown[1]) == pytest.approx(result.high - reward, rel=1e-3)
    assert shown[2] == unit


def falsify(document: dict, what: str) -> None:
    part = document["constrained"]
    one = part["constraints"][0]
    match what:
        case "proven":
            one["proven"]["at_least"] += 1e-4
        case "level":
            one["bound"]["at_least"] = 0.97
        case "loss":
            part["loss"] *= 0.99
        case "price":
            one["price"] *= 1.01
        case "negative price":
            one["price"] = -one["price"]
        case "weights":
            one["numerator"]["lost"] = -0.9
        case "count":
            one["numerator"]["sold"] = 1.0
        case "denominator":
            one["denominator"] = {"demand": -1.0}
        case "counts":
            part["counts"] = "0" * 64
        case "value":
            one["certificate"]["policy_mean"][1] += 1e-3
        case "nested policy":
            one["certificate"]["policy"] = document["policy"] | {"size": 1}
            one["certificate"]["more"] = 1
        case "no constraints":
            part["constraints"] = []


FALSEHOODS = (
    "proven, level, loss, price, negative price, weights, count, denominator, counts, value, "
    "nested policy, no constraints"
)


@pytest.mark.parametrize("what", FALSEHOODS.split(", "))
def test_the_checker_rejects_what_is_not_so(small, what, tmp_path, capsys):
    mdp, result = solve_small(small, None)
    certify_constrained(result, result.policy).save(tmp_path / "c.json")
    mdp.save(tmp_path / "model.nc")
    document = json.loads((tmp_path / "c.json").read_text())
    falsify(document, what)
    (tmp_path / "c.json").write_text(json.dumps(document))
    assert main([str(tmp_path / "model.nc"), str(tmp_path / "c.json")]) == 1
    assert capsys.readouterr().out.startswith("REJECTED: constrained")


def test_the_checker_rejects_a_constraint_that_is_missed(small, tmp_path, capsys):
    """All within it is true: the policy's fill rate is honestly certified to miss the level."""
    mdp, result = solve_small(small, None)
    certify_constrained(result, result.policy).save(tmp_path / "c.json")
    document = json.loads((tmp_path / "c.json").read_text())
    one = document["constrained"]["constraints"][0]
    level = one["proven"]["at_least"] + 0.01
    saved, _ = rebuild_from_contents(mdp)
    only_policy = np.eye(mdp.n_actions, dtype=bool)[result.policy.table.ravel()]
    weights = weigh_exactly(mdp.measures["fill_rate"], 1.0, level)
    model = replace(replace_reward(saved, weights), feasible=only_policy)
    one["certificate"] = ts.certify(ts.solve(model), result.policy)._convert_nested()
    one["proven"]["at_least"] = level
    (tmp_path / "c.json").write_text(json.dumps(document))
    mdp.save(tmp_path / "model.nc")
    assert main([str(tmp_path / "model.nc"), str(tmp_path / "c.json")]) == 1
    assert "constrained.fill_rate is not surely at least" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"bound": {"at_most": 0.5}}, "with a level that is no weaker"),
        ({"bound": {"at_least": 900.0}}, "proven must be at_least"),
        (
            {
                "numerator": {"lost": -1.0},
                "denominator": {"": -1.0},
                "bound": {"at_least": 0.0},
                "proven": {"at_least": None},
            },
            "denominator may be negative",
        ),
    ],
)
def test_the_checker_rejects_another_reading_of_what_is_proven(
    small, change, reason, tmp_path, capsys
):
    """The constraint that does not bind has no price, so nothing else depends on it."""
    mdp, result = solve_small(small, None)
    certify_constrained(result, result.policy).save(tmp_path / "c.json")
    document = json.loads((tmp_path / "c.json").read_text())
    one = document["constrained"]["constraints"][1]
    proven = one["proven"]["at_most"]
    one |= change
    one["proven"] = {key: level or proven for key, level in one["proven"].items()}
    (tmp_path / "c.json").write_text(json.dumps(document))
    mdp.save(tmp_path / "model.nc")
    assert main([str(tmp_path / "model.nc"), str(tmp_path / "c.json")]) == 1
    assert reason in capsys.readouterr().out


def test_several_constraints(small):
    bounds = {"fill_rate": ts.AtLeast(0.9), "lost": ts.AtMost(5.0)}
    rule = ts.compress(small, 0.05, subject_to=bounds)
    measures = ts.evaluate(small, rule).measures
    assert measures["fill_rate"].low >= 0.9
    assert measures["lost"].high <= 5.0
    assert "; lost " in rule.facts["constraints"]


def test_a_constraint_that_does_not_bind_changes_nothing(small):
    free = ts.compress(ts.solve(small), 0.05, classes=[OrderUpTo()])
    rule = ts.compress(
        small, 0.05, classes=[OrderUpTo()], subject_to={"fill_rate": ts.AtLeast(0.0)}
    )
    assert rule.size == free.size


def test_errors(small):
    solution = ts.solve(small)
    bound = {"fill_rate": ts.AtLeast(0.9)}
    with pytest.raises(ts.ArgumentError, match=r"no rule with fill_rate at least 0.9, and a loss"):
        ts.compress(small, 1e-6, subject_to=bound, classes=[OrderUpTo()])
    with pytest.raises(ts.ArgumentError, match=r"deterministic policy known has a loss of 0\.0"):
        ts.compress(small, 1e-6, subject_to=bound, classes=[OrderUpTo()])
    with pytest.raises(ts.ArgumentError, match="fill_rate is at most"):
        ts.compress(solution, 0.02, subject_to={"fill_rate": ts.AtLeast(1.5)})
    for option in ({"worst": True}, {"start": np.full(39, 1 / 39)}, {"relative_to": "random"}):
        with pytest.raises(ts.ArgumentError, match="means over the model's own start; got start"):
            ts.compress(solution, 0.02, subject_to=bound, **option)
    with pytest.raises(ts.ArgumentError, match="a loss target is a number, at least 0"):
        ts.compress(small, -1, subject_to=bound)
    with pytest.raises(ts.ArgumentError, match="needs a Solution; got an MDP"):
        ts.compress(small, 0.02)
