"""The loss target is met, always; what is proven necessary never exceeds the true minimum."""

from __future__ import annotations

import itertools
import re

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.small_rules import (
    count_table_runs,
    count_tree_leaves,
    find_index_size,
    find_surface_size,
)

import tessella as ts
from tessella.mdp.rule_tree import Leaf, RuleTree, Split, build_lookup

SHAPE = (3, 2)
DISCOUNT = 0.9
AXES = {"stock": range(SHAPE[0]), "mode": range(SHAPE[1])}
STATES = SHAPE[0] * SHAPE[1]


def random_model(seed: int, n_actions: int = 2) -> tuple[ts.MDP, np.ndarray, np.ndarray]:
    """A model of six states, with its (A, S, S) rows and (S, A) rewards."""
    rng = np.random.default_rng(seed)
    rows = rng.dirichlet(np.full(STATES, 0.5), size=(n_actions, STATES))
    reward = np.round(rng.normal(1.0, 1.0, size=(STATES, n_actions)), 1)
    names = tuple(range(n_actions))
    mdp = ts.MDP.from_arrays(rows, reward, DISCOUNT, grid=AXES, actions=names)
    return mdp, rows, reward


def worth(rows: np.ndarray, reward: np.ndarray, table: np.ndarray) -> np.ndarray:
    """(S,) the value of a table, by dense arrays and nothing of the package."""
    everyone = np.arange(STATES)
    system = np.eye(STATES) - DISCOUNT * rows[table, everyone]
    return np.linalg.solve(system, reward[everyone, table])


def all_losses(rows, reward, start, worst):
    """Table to loss, of all policies; and the optimal value from the start."""
    tables = [np.array(t) for t in itertools.product(range(reward.shape[1]), repeat=STATES)]
    values = np.stack([worth(rows, reward, table) for table in tables])
    best = values.max(axis=0)
    lost = best - values
    losses = lost.max(axis=1) if worst else lost @ start
    return {tuple(t): float(x) for t, x in zip(tables, losses, strict=True)}, float(start @ best)


@settings(max_examples=12, deadline=None, derandomize=True)
@given(
    seed=st.integers(0, 10_000),
    loss=st.sampled_from([0.0, 0.003, 0.02, 0.1]),
    worst=st.booleans(),
    one=st.booleans(),
    rule_class=st.sampled_from([None, ts.SmallNetwork(), ts.MonotoneSurface()]),
)
def test_the_loss_target_is_met_whatever_the_model(seed, loss, worst, one, rule_class):
    mdp, rows, reward = random_model(seed)
    start = np.eye(STATES)[2] if one else np.full(STATES, 1 / STATES)
    rule_classes = None if rule_class is None else [rule_class, ts.RunLength()]
    rule = ts.compress(ts.solve(mdp), loss, start=start, worst=worst, classes=rule_classes)
    losses, best = all_losses(rows, reward, start, worst)
    assert losses[tuple(rule.table.ravel())] <= loss * abs(best) + 1e-9
    assert rule.size_needed <= rule.size
    assert np.array_equal(rule.tree(mdp.grid.points), rule.table.ravel())


CLASSES = [
    (ts.AxisTree(), lambda table: 3 * count_tree_leaves(table) - 2),
    (ts.RunLength(), lambda table: 2 * count_table_runs(table)),
    (ts.LinearCuts(), find_index_size),
    (ts.MonotoneSurface(), find_surface_size),
]


@pytest.mark.parametrize(("rule_class", "smallest"), CLASSES, ids=lambda c: getattr(c, "name", ""))
@pytest.mark.parametrize("seed", range(2))
def test_what_is_proven_necessary_is_never_above_the_true_minimum(rule_class, smallest, seed):
    mdp, rows, reward = random_model(seed)
    solution = ts.solve(mdp)
    for worst, loss, one in itertools.product((False, True), (0.0, 0.03), (False, True)):
        start = np.eye(STATES)[1] if one else np.full(STATES, 1 / STATES)
        losses, best = all_losses(rows, reward, start, worst)
        most = loss * abs(best) + 1e-9
        true = min(smallest(np.reshape(t, SHAPE)) for t, x in losses.items() if x <= most)
        asked = {"start": start, "worst": worst, "classes": [rule_class]}
        if true == np.inf:
            with pytest.raises(ts.ArgumentError, match="was found in the given classes"):
                ts.compress(solution, loss, **asked)
            continue
        rule = ts.compress(solution, loss, **asked)
        assert rule.size_needed <= true <= rule.size
        if loss == 0 and not one and not isinstance(rule_class, ts.MonotoneSurface):
            assert rule.size_needed == rule.size == true


def proof_of(rule: ts.Rule) -> ts.Certificate:
    assert rule.certificate is not None
    return rule.certificate


LEAVES = {"INV-Mix": 46, "INV-Lin": 42, "INV-Hard": 53, "QUE-Mix": 21, "QUE-Lin": 19}


@pytest.fixture(scope="module")
def solutions():
    return {name: ts.solve(ts.benchmark(name)) for name in LEAVES}


@pytest.mark.parametrize("name", LEAVES)
def test_the_smallest_exact_trees_of_the_benchmarks_are_proven(solutions, name):
    rule = ts.compress(solutions[name], 0.0, classes=[ts.AxisTree()])
    assert rule.size == rule.size_needed == 3 * LEAVES[name] - 2
    assert proof_of(rule).mean_loss == 0.0


def test_linear_inventory_is_exact_with_five_numbers_of_an_index_and_three_of_an_order_rule(
    solutions,
):
    index = ts.compress(solutions["INV-Lin"], 0.0, classes=[ts.LinearCuts()])
    assert (index.size, index.size_needed) == (5, 5)
    assert np.array_equal(index.table, solutions["INV-Lin"].policy.table)
    within = ts.compress(solutions["INV-Lin"], 0.01)
    assert within.size <= 3
    share = proof_of(within).relative_loss
    assert share is not None
    assert share.upper <= 0.01


@pytest.mark.parametrize(("loss", "sentence"), [(0.01, "largest"), (0.0, "smallest")])
def test_numbers_have_the_fewest_digits_that_meet_the_loss_target_and_say_what_is_done(
    solutions, loss, sentence
):
    solution = solutions["INV-Lin"]
    rule = ts.compress(solution, loss, classes=[ts.OrderUpTo()])
    level_of = r"{} (\S+) \+ ([\d.]+) x regime"
    said = [
        pair for w in ("up to", "at most") for pair in re.findall(level_of.format(w), str(rule))
    ]
    stock, regime = solution.mdp.grid.points.T
    assert f"the {sentence} order that" in rule.explain()
    (level, slope), orders = map(float, said[0]), np.array(rule.actions, dtype=float)
    room = (level + slope * regime - stock)[:, None]
    if sentence == "largest":
        meant = np.where(orders <= room + 1e-9, orders, -np.inf).max(axis=1)
    else:
        meant = np.where(orders >= room - 1e-9, orders, np.inf).min(axis=1)
    meant = np.clip(np.nan_to_num(meant), orders[0], orders[-1])
    if len(said) > 1:
        below, _ = map(float, said[1])
        meant = np.where(stock <= below + slope * regime + 1e-9, meant, orders[0])
    assert np.array_equal(orders[rule.table.ravel()], meant)
    assert slope == (0.5 if loss else 0.44)


@pytest.fixture(scope="module")
def small():
    mdp, _, _ = random_model(5, n_actions=3)
    return ts.solve(mdp)


KINDS = [
    ts.OneAction(),
    ts.OrderUpTo(),
    ts.LinearCuts(),
    ts.LinearTree(),
    ts.RunLength(),
    ts.Staircase(),
    ts.WithExceptions(),
    ts.SmallNetwork(),
    ts.MonotoneSurface(),
    ts.AxisTree(),
]


@pytest.mark.parametrize("rule_class", KINDS, ids=lambda k: k.name)
def test_a_fit_costs_what_it_says_and_its_cuts_are_clear_of_every_state(rule_class):
    rng = np.random.default_rng(3)
    grid = ts.StateGrid(stock=range(6), level=[0.5, 1.5, 4.0], season=["dry", "wet"])
    costs = ts.Costs(grid, (0, 2, 4), rng.random((grid.size, 3)))
    fits = rule_class.fit(costs, 40, 0.0)
    assert fits
    for fitted in fits:
        tree = fitted.build_tree(grid)
        assert costs.of(tree) == pytest.approx(fitted.cost, abs=1e-9)
        assert tree.cut_clearance > 1e-6
        assert fitted.size <= 40
    assert [f.size for f in fits] == sorted({f.size for f in fits})


def test_the_frontier_falls_and_every_class_stands_in_the_outcomes(small):
    found = ts.frontier(small, 20)
    sizes, losses = zip(*((p.size, p.loss) for p in found.points), strict=True)
    assert list(sizes) == sorted(set(sizes))
    assert list(losses) == sorted(losses, reverse=True)
    assert {o.kind for o in found.outcomes} == {k.name for k in KINDS}
    for outcome in found.outcomes:
        sizes = [point.size for point in found.all_points if point.kind == outcome.kind]
        assert outcome.size == min(sizes, default=None)


def test_a_looser_loss_gives_no_worse_rule_of_the_same_size():
    solution = ts.solve(ts.problem("perishable").build())
    tight, loose = (ts.compress(solution, loss) for loss in ("2%", "50%"))
    assert tight.size == loose.size
    assert loose.facts["mean_loss"] <= tight.facts["mean_loss"]


def test_a_loss_is_a_number_or_a_text_as_on_the_command_line(small):
    unit = ts.compress(small, 1.5, relative=False)
    share = ts.compress(small, 0.2)
    assert ts.compress(small, " 20%").loss_target == share.loss_target
    assert ts.compress(small, "0.2").loss_target == share.loss_target
    assert ts.compress(small, "1.5 units").loss_target == unit.loss_target
    for text, message in (("much", "'much' is not a loss"), ("2", "'2' is above 1, the whole")):
        with pytest.raises(ts.ArgumentError, match=message):
            ts.compress(small, text)


class Empty(ts.RuleClass):
    """A class that finds nothing."""

    name = "empty"

    def fit(self, costs, max_size, target):
        return []


class Poor(Empty):
    """A class of rules that take one action everywhere."""

    name = "poor"

    def fit(self, costs, max_size, target):
        return ts.OneAction().fit(costs, max_size, target)


class Refused(Empty):
    """A class that has no rules for any model."""

    name = "refused"

    def why_not_applicable(self, costs):
        return "no model will do"


def test_where_a_class_has_no_rule_it_says_what_was_tried_and_what_may_help(small):
    found = ts.compress(small, 0.3, classes=[ts.RunLength(), Empty(), Refused()])
    _, empty, refused = found.outcomes
    assert str(empty) == (
        "empty: none found (the class has no exact solver; a larger loss may allow one)"
    )
    assert str(refused) == "refused: none found (the class does not apply: no model will do)"
    (whole,) = ts.frontier(small, 20, classes=[Empty()]).outcomes
    assert whole.explanation == "the class has no exact solver; a larger `max_size` may allow one"
    with pytest.raises(ts.ArgumentError, match="a larger loss may allow one"):
        ts.compress(small, 0.0, classes=[Empty()])


def test_rules_that_were_tried_are_counted(small):
    found = ts.compress(small, 0.0, classes=[ts.RunLength(), Poor()], prefer="smallest")
    said = found.outcomes[1].explanation
    assert re.search(
        rf"; rules of up to {found.size} parameters tried: [1-9]\d*; a larger loss", said
    )


def test_a_least_size_that_is_not_found_says_what_is_known_and_what_may_help(small):
    unknown = ts.least_size(small, 0.0, Empty())
    remedy = "a larger loss or `max_size` may allow one"
    assert unknown.explanation == f"the class has no exact solver; {remedy}"
    assert "no model will do" in ts.least_size(small, 0.0, Refused()).explanation
    none = ts.least_size(small, 0.0, ts.OneAction(), max_size=1)
    assert none.explanation == f"no rule of this class meets the loss target; {remedy}"
    none = ts.least_size(small, 0.0, ts.RunLength(), max_size=2)
    assert none.explanation == f"none with 2 parameters or fewer meets the loss target; {remedy}"


def test_a_model_told_in_costs_is_spoken_of_in_costs(tmp_path):
    _, rows, reward = random_model(5)
    mdp = ts.MDP.from_arrays(rows, -reward, DISCOUNT, grid=AXES, minimise=True)
    rule = ts.compress(ts.solve(mdp), 0.1, classes=[ts.RunLength()])
    assert "It is optimal." in rule.explain()
    rough = ts.compress(ts.solve(mdp), 5.0, classes=[ts.OneAction()]).explain()
    assert "Guaranteed extra cost: " in rough
    assert "of the optimal cost on average" in rough
    assert "Requested limit: an extra cost of at most 10% of the optimal cost" in rule.explain()
    rule.export(tmp_path / "rule.py")
    head = (tmp_path / "rule.py").read_text()
    assert "certified mean extra cost: at most" in head
    assert "optimal value" not in rule.explain() + rough + head


class Diagonal(ts.RuleClass):
    """A class of one's own: one cut of stock + mode."""

    name = "diagonal"

    def fit(self, costs, max_size, target):
        made = []
        for cut in (0.5, 1.5, 2.5):
            root = Split((("stock", 1.0), ("mode", 1.0)), (cut,), (Leaf(0), Leaf(1)))
            made.append(ts.Candidate(root, 1, costs.of(RuleTree(costs.grid, root, 1))))
        return [min(made, key=lambda f: f.cost)]


def test_a_class_of_ones_own_takes_part(small):
    rule = ts.compress(small, 0.9, classes=[Diagonal()])
    assert (rule.kind, rule.size, rule.size_needed) == ("diagonal", 1, 0)


def test_progress_is_shown_class_by_class(small):
    shown: list[str] = []
    names = ["one action", "axis tree", "small network"]
    ts.compress(small, 0.0, classes=names, progress=shown.append)
    assert [line.split(":")[0] for line in shown] == [f"Trying {name}" for name in names]
    assert shown[0] == "Trying one action"
    assert "no rule within the limit yet" in shown[1]
    assert re.search(r"axis tree with \d+ parameters so far", shown[2])


@pytest.mark.parametrize("given", ["axis tree", "axis-tree", "Axis_Tree", ts.AxisTree()])
def test_a_class_of_rules_is_given_by_name_or_by_itself(small, given):
    assert ts.compress(small, 0.0, classes=[given]).kind == "axis tree"


def test_an_unknown_class_of_rules_is_answered_with_the_known_ones(small):
    with pytest.raises(ts.ArgumentError, match=r"are one action, order up to, .*got 'forest'"):
        ts.compress(small, 0.0, classes=["forest"])
    with pytest.raises(ts.ArgumentError, match=r"pass classes=\[\.\.\.\]"):
        ts.compress(small, 0.0, classes="axis tree")


class Scripted(ts.RuleClass):
    """Offers a table as a rule of a stated size."""

    def __init__(self, name: str, rank: int, size: int, table: np.ndarray) -> None:
        self.name, self.reading_rank, self.size, self.table = name, rank, size, table

    def fit(self, costs, max_size, cost_limit):
        root = build_lookup(costs.grid.axes, self.table.ravel())
        return [ts.Candidate(root, self.size, 0.0)] if self.size <= max_size else []


@pytest.mark.parametrize(("extra", "is_read"), [(0, True), (1, True), (2, False)])
def test_a_readable_rule_may_have_one_parameter_more(small, extra, is_read):
    table = small.policy.table
    for order in (1, -1):
        both = [Scripted("short", 5, 4, table), Scripted("clear", 1, 4 + extra, table)][::order]
        rule = ts.compress(small, 0.0, classes=both)
        assert rule.kind == ("clear" if is_read else "short")
        rule = ts.compress(small, 0.0, classes=both, prefer="smallest")
        assert rule.size == 4
    with pytest.raises(ts.ArgumentError, match="'readable' or 'smallest'"):
        ts.compress(small, 0.0, prefer="shortest")


class Interrupted(ts.RuleClass):
    """The user presses Ctrl-C while this class is looked at."""

    name = "interrupted"

    def fit(self, costs, max_size, target):
        raise KeyboardInterrupt


def test_an_interrupt_returns_the_best_so_far(small):
    rule = ts.compress(small, 0.0, classes=[ts.RunLength(), Interrupted(), ts.AxisTree()])
    assert rule.kind == "run-length table"
    found = ts.frontier(small, 20, classes=[ts.RunLength(), Interrupted()])
    assert {point.kind for point in found.points} == {"run-length table"}
    for verb in (ts.compress, ts.frontier):
        with pytest.raises(KeyboardInterrupt):
            verb(small, classes=[Interrupted()])


def test_a_time_limit_returns_the_best_so_far(small):
    rule = ts.compress(small, 0.0, classes=[ts.RunLength(), ts.AxisTree()], time_limit=1e-6)
    assert any("time limit" in str(outcome) for outcome in rule.outcomes)


def test_a_rule_is_saved_as_what_it_is(small, tmp_path):
    rule = ts.compress(small, 0.02)
    rule.save(tmp_path / "rule.json")
    back = ts.Rule.load(tmp_path / "rule.json")
    assert back.tree.root == rule.tree.root
    assert (back.size, back.size_needed, back.kind) == (rule.size, rule.size_needed, rule.kind)
    assert back.explain() == rule.explain()
    assert np.array_equal(back.table, rule.table)
    small.policy.save(tmp_path / "policy.json")
    with pytest.raises(ts.FileError, match="tessella rule"):
        ts.Rule.load(tmp_path / "policy.json")


def test_a_loss_relative_to_random_actions_is_measured_on_that_scale(small):
    mdp = small.mdp
    arrays = mdp.to_arrays()
    rows, reward = arrays.transition.mean(axis=0), arrays.reward.mean(axis=1)
    random = np.linalg.solve(np.eye(STATES) - DISCOUNT * rows, reward)
    unit = float((small.value.ravel() - random).mean())
    rule = ts.compress(small, 0.2, relative_to="random")
    assert proof_of(rule).mean_loss.upper <= 0.2 * unit
    found = ts.frontier(small, 12, relative_to="random")
    table = found.points[0].table
    assert found.points[0].loss == pytest.approx(ts.loss(small, table).mean / unit, rel=1e-6)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"loss": -1}, "at least 0"),
        ({"loss": 0.1, "time_limit": 0}, "seconds above 0"),
        ({"loss": 0.1, "relative_to": "best"}, "'optimal' or to 'random'"),
        ({"loss": 0.1, "classes": []}, "at least one class"),
        ({"loss": 0.1, "classes": [3]}, "needs a RuleClass"),
        ({"loss": 0.1, "classes": ts.AxisTree()}, r"list of classes.*got AxisTree.*classes=\["),
        ({"loss": 0.1, "classes": 3}, "list of classes of rules; got 3"),
        ({"loss": 0.1, "worst": "yes"}, "worst is True or False; got 'yes'"),
        ({"loss": 0.1, "relative": 1}, "relative is True or False; got 1"),
    ],
)
def test_what_cannot_be_asked_is_refused(small, arguments, said):
    with pytest.raises(ts.ArgumentError, match=said):
        ts.compress(small, **arguments)


def test_an_error_names_the_function_that_was_called(small):
    with pytest.raises(TypeError, match=r"^frontier\(\) got an unexpected .* 'effort'"):
        ts.frontier(small, 5, effort=None)
    with pytest.raises(TypeError, match=r"^least_size\(\) got an unexpected .* 'classes'"):
        ts.least_size(small, 0.1, ts.OneAction(), classes=[ts.OneAction()])
    with pytest.raises(ts.ArgumentError, match=r"^frontier needs a Solution"):
        ts.frontier(small.mdp)


@pytest.mark.parametrize("max_size", [2.5, "a", -3, 0, True])
def test_a_frontier_of_no_whole_number_of_numbers_is_refused(small, max_size):
    said = f"max_size must be a whole number, at least 1; got {max_size!r}"
    with pytest.raises(ts.ArgumentError, match=said):
        ts.frontier(small, max_size)


def test_the_size_that_is_found_does_not_hang_on_the_last_digits_of_a_solution():
    """Costs of several slopes tie, and rounding picks among them; so the next best are judged."""
    mdp = ts.problem("perishable").build()
    methods = ts.PolicyIteration(), ts.ValueIteration(1e-8), ts.InexactPolicyIteration(1e-4)
    rule_classes = [ts.OrderUpTo()]
    found = [
        ts.compress(ts.solve(mdp, how), loss=0.005, classes=rule_classes).size for how in methods
    ]
    assert found == [2, 2, 2]


def test_trunk_reservation_and_the_shorter_queue_are_one_number():
    """Sums and differences of axes store no weights, and the last actions do as the first ones."""
    admission = ts.compress(ts.solve(ts.problem("two_class_admission").build()), 0.0)
    assert (admission.size, admission.size_needed) == (1, 1)
    assert "admit=2 where first + second is at most 8\n" in admission.explain()
    routing = ts.compress(ts.solve(ts.problem("parallel_queues").build()), 0.01)
    assert routing.size == 1
    assert routing.explain().startswith("route=first where first - second is ")
