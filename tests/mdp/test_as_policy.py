"""Conversion to policies: equal policies from every source, and errors with a reason."""

from __future__ import annotations

import csv
import threading
from types import SimpleNamespace

import numpy as np
import pytest
from sklearn.neighbors import KNeighborsClassifier
from sklearn.tree import DecisionTreeClassifier

import tessella as ts
from tessella.certificates.certify import certify
from tessella.mdp.as_policy import as_policy


@pytest.fixture(scope="module")
def mdp():
    return ts.benchmark("INV-Mix")


@pytest.fixture(scope="module")
def inventory(mdp):
    return ts.solve(mdp)


@pytest.fixture(scope="module")
def table(mdp):
    """Order enough to reach 6 + regime / 2, as action indices."""
    stock, regime = mdp.grid.points.T
    return (
        np.clip(np.ceil((6 + 0.5 * regime - stock) / 4), 0, 4).astype(int).reshape(mdp.grid.shape)
    )


def write(path, mdp, table, action="order", order=None, drop=0):
    values = np.asarray(mdp.actions)[table].ravel()
    rows = [[*point, value] for point, value in zip(mdp.grid.points, values, strict=True)]
    rows = [rows[i] for i in (range(len(rows)) if order is None else order)]
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow([*mdp.grid.axes, action])
        writer.writerows(rows[drop:])
    return path


class Agent:
    """Stable-Baselines3's way to be asked."""

    def __init__(self, table, flat):
        self.table, self.flat = table, flat
        self.observation_space = SimpleNamespace(shape=() if flat else (2,))

    def predict(self, observation, state=None, episode_start=None, deterministic=False):
        assert deterministic
        if self.flat:
            return self.table.ravel()[observation], None
        stock, regime = np.asarray(observation).T.astype(int)
        return self.table[stock, regime], None


def sources(mdp, table, folder):
    values = np.asarray(mdp.actions)[table]
    shuffled = np.random.default_rng(0).permutation(mdp.n_states)
    estimator = KNeighborsClassifier(1).fit(mdp.grid.points, table.ravel())
    on_values = KNeighborsClassifier(1).fit(mdp.grid.points, values.ravel())
    policy = mdp.policy(table)

    def rule(stock, regime):
        return 4 * np.clip(np.ceil((6 + 0.5 * regime - stock) / 4), 0, 4)

    return {
        "policy": policy,
        "result that carries one": SimpleNamespace(policy=policy),
        "array": table,
        "list": table.tolist(),
        "flat array": table.ravel(),
        "function of points": policy.act,
        "function of names": rule,
        "estimator of indices": estimator,
        "estimator of values": on_values,
        "agent on coordinates": Agent(table, flat=False),
        "agent on flat states": Agent(table, flat=True),
        "csv": write(folder / "a.csv", mdp, table, order=shuffled),
        "csv path as text": str(write(folder / "b.csv", mdp, table, action="action")),
    }


def test_all_kinds_of_source_give_the_same_policy(mdp, table, tmp_path):
    for name, source in sources(mdp, table, tmp_path).items():
        found = as_policy(mdp, source)
        np.testing.assert_array_equal(found.table, table, err_msg=name)


def test_certifying_any_source_gives_the_same_loss(inventory, table, tmp_path):
    found = sources(inventory.mdp, table, tmp_path)
    losses = {name: certify(inventory, found[name]).mean_loss for name in ("array", "csv")}
    assert len(set(losses.values())) == 1


def test_names_of_actions_are_read_as_values():
    actions = ("wait", "repair")
    P = np.stack([np.eye(3), np.eye(3)[[0, 0, 0]]])
    mdp = ts.MDP.from_arrays(P, np.zeros((3, 2)), 0.9, actions=actions)
    expected = [0, 1, 1]
    for source in (["wait", "repair", "repair"], lambda state: np.where(state > 0, *actions[::-1])):
        np.testing.assert_array_equal(as_policy(mdp, source).table, expected)


def test_answers_that_could_be_indices_or_values_must_be_explained(mdp):
    def unclear(stock):
        return np.where(stock < 8, 4, 0)

    with pytest.raises(ts.PolicyError, match=r"\[0, 4\] could be either .* labels='index'"):
        as_policy(mdp, unclear)
    assert as_policy(mdp, unclear, "index").table.max() == 4
    assert as_policy(mdp, unclear, "value").table.max() == 1


def test_what_an_estimator_was_trained_on_explains_what_it_predicts(mdp):
    points = np.vstack([mdp.grid.points, [[1000.0, 0.0]]])
    labels = np.where(points[:, 0] < 8, 4, 0)
    labels[-1] = 16  # no state is near this one, so that only 0 and 4 are predicted
    estimator = KNeighborsClassifier(1).fit(points, labels)
    assert set(np.unique(as_policy(mdp, estimator).table)) == {0, 1}


REFUSED = {
    "shape": (np.zeros((2, 2), int), "shape"),
    "index": (np.full((33, 25), 5), r"0\.\.4; stock=0, regime=0 gets 5 \(825 of 825"),
    "value": (lambda stock, regime: 3.5 + 0 * stock, "order must be one of 0, 4, 8, 12, 16"),
    "unknown name": (lambda stock, colour: stock, "has an unknown argument 'colour'"),
    "scalar code": (lambda stock: 0 if stock < 3 else 1, "the policy function failed: ValueError"),
    "wrong length": (lambda points: np.zeros(7), r"for each of 825 points; gives shape \(7,\)"),
    "no file": ("nowhere.csv", "cannot be read as a policy table"),
    "not an answer": (object(), "must be a Policy, a rule, a table, .* got object"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_cannot_be_a_policy_is_refused_with_the_reason(mdp, case):
    source, reason = REFUSED[case]
    kind = ts.FileError if case == "no file" else ts.PolicyError
    with pytest.raises(kind, match=reason):
        as_policy(mdp, source)


def test_an_estimator_with_two_outputs_is_refused(mdp):
    estimator = SimpleNamespace(predict=lambda points: np.zeros((len(points), 2)))
    with pytest.raises(ts.PolicyError, match="one action for each of 825 points"):
        as_policy(mdp, estimator)


def test_an_agent_that_observes_something_else_is_refused(mdp, table):
    agent = Agent(table, flat=False)
    agent.observation_space = SimpleNamespace(shape=(84, 84))
    with pytest.raises(ts.PolicyError, match=r"2 coordinates; Agent observes shape \(84, 84\)"):
        as_policy(mdp, agent)


def test_a_policy_of_another_model_is_refused(mdp):
    queue = ts.solve(ts.benchmark("QUE-Mix"))
    with pytest.raises(ts.PolicyError, match="the policy is for StateGrid"):
        as_policy(mdp, queue)
    other = ts.inventory(orders=(0, 4, 8, 12, 20))
    with pytest.raises(ts.PolicyError, match="the policy has actions"):
        as_policy(mdp, other.policy(np.zeros(other.grid.shape, int)))


def test_an_infeasible_action_is_refused_and_named():
    feasible = np.array([[True, False], [True, True]])
    P = np.stack([np.eye(2), np.eye(2)])
    mdp = ts.MDP.from_arrays(P, np.zeros((2, 2)), 0.9, feasible=feasible)
    for source in ([1, 1], lambda state: 1 + 0 * state, mdp.policy([0, 1]).act):
        if callable(source) and source.__name__ == "act":
            as_policy(mdp, source)
            continue
        with pytest.raises(ts.PolicyError, match="state=0, action=1 is not feasible"):
            as_policy(mdp, source)


def more(lines, name):
    """The same with one more column, of zeros."""
    return [f"{lines[0]},{name}", *(f"{line},0" for line in lines[1:])]


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (lambda lines: lines[:-1], "each state once; stock=32, regime=24 is missing"),
        (lambda lines: [*lines, lines[1]], "stock=0, regime=0 occurs more than once"),
        (lambda lines: ["stock,order", *lines[1:]], "must have a column 'regime'"),
        (lambda lines: [lines[0], "0.5,0.0,8", *lines[2:]], "line 2 has stock=0.5"),
        (lambda lines: [lines[0], "0.0,0.0,9", *lines[2:]], "stock=0, regime=0 gets 9"),
        (lambda lines: [lines[0], "0.0,0.0,much", *lines[2:]], "line 2 has order='much'"),
        (lambda lines: [lines[0], "", "0.0,0.0,much", *lines[2:]], "line 3 has order='much'"),
        (lambda lines: ["stock,regime,what", *lines[1:]], "must have a column 'order'"),
        (
            lambda lines: more(lines, "order"),
            "must have each column once; it has 'order' 2 times",
        ),
        (
            lambda lines: more(lines, " stock"),
            "must have each column once; it has 'stock' 2 times",
        ),
        (
            lambda lines: more(lines, "action"),
            "must have one column for the action; it has 'order' and 'action'",
        ),
        (
            lambda lines: [*lines[:3], lines[3] + ",4", *lines[4:-1], lines[-1] + ","],
            r"must have 3 cells in each row, as its header has; line 4 has 4 \(2 of 825 rows\)",
        ),
        (
            lambda lines: [lines[0] + ",note", *(line + "," for line in lines[1:-1]), lines[-1]],
            r"must have 4 cells .*; line 826 has 3 \(1 of 825 rows\)",
        ),
    ],
)
def test_a_faulty_table_is_refused_with_its_place(mdp, table, tmp_path, change, reason):
    path = write(tmp_path / "policy.csv", mdp, table)
    lines = path.read_text().splitlines()
    path.write_text("\n".join(change(lines)) + "\n")
    kind = ts.PolicyError if "gets 9" in reason else ts.FileError
    with pytest.raises(kind, match=reason):
        as_policy(mdp, path)


def test_columns_that_are_none_of_the_models_are_passed_over(mdp, table, tmp_path):
    path = write(tmp_path / "policy.csv", mdp, table)
    head, *rest = path.read_text().splitlines()
    path.write_text("\n".join([f"{head},note,,", *(f"{line},x,," for line in rest)]))
    np.testing.assert_array_equal(as_policy(mdp, path).table, table)


def counted(rule, most):
    """``rule``, which fails when it is asked about more than ``most`` points in all."""

    def asked(points):
        asked.points += len(points)
        assert asked.points <= most, "asked about more points than there was need for"
        return rule(points)

    asked.size, asked.points = 1, 0
    return asked


SMALL = 10  # states of a chunk, as few against these models as real ones against a billion states


def test_a_foreign_estimator_or_function_counts_what_it_stores_and_not_the_grid():
    mdp = ts.benchmark("QUE-Lin")
    solution = ts.solve(mdp)
    sample = ts.draw(solution, 200, rng=0)
    tree = DecisionTreeClassifier(max_depth=3, random_state=0)
    fitted = ts.fit(tree, sample)
    foreign = mdp.policy(tree.fit(sample.points, sample.labels))
    assert 0 < foreign.size == fitted.size < mdp.n_states
    assert mdp.policy(lambda queue: queue < 3).size < 20
    levels = np.arange(500.0)
    assert 500 < mdp.policy(lambda queue: queue < levels[3]).size < 520


def test_the_size_of_a_function_is_the_same_wherever_its_file_lies():
    code = "def rule(points):\n    return points[:, 0] < 3\n"
    sizes = set()
    for name in ("a.py", "a/long/way/from/here.py"):
        names = {"__name__": name}
        exec(compile(code, name, "exec"), names)
        sizes.add(ts.benchmark("QUE-Lin").policy(names["rule"]).size)
    assert len(sizes) == 1


def test_what_no_file_can_hold_has_the_size_of_its_table(mdp):
    lock = threading.Lock()

    class Held:
        def predict(self, points):
            with lock:
                return np.zeros(len(points), int)

    held = Held()
    held.lock = lock
    assert mdp.policy(held).size == mdp.n_states


def test_off_the_grid_estimators_and_functions_are_asked_about_the_point_itself(mdp):
    def by_name(stock):
        return np.where(stock < 8.25, 16, 0)

    def by_points(points):
        return np.where(points[:, 0] < 8.25, 16, 0)

    class Wide:
        def predict(self, points):
            return by_points(points)

    for source in (by_name, by_points, Wide()):
        assert mdp.policy(source).decide([[8.2, 0], [8.3, 0]]).tolist() == [16, 0]


def test_a_function_of_names_is_given_labels_and_whole_numbers():
    grid = {"colour": ["red", "blue"], "n": range(3)}
    P = np.stack([np.eye(6), np.eye(6)])
    mdp = ts.MDP.from_arrays(P, np.zeros((6, 2)), 0.9, grid=grid, actions=("wait", "go"))
    names = np.array(["wait", "go", "go"])
    policy = mdp.policy(lambda colour, n: np.where(colour == "red", names[n], "wait"))
    assert policy.table.tolist() == [[0, 1, 1], [0, 0, 0]]
    assert policy.decide([[0, 2], [1, 2]]).tolist() == ["go", "wait"]


def test_a_rule_comes_in_without_its_table(mdp):
    as_policy(mdp, counted(lambda points: np.zeros(len(points)), SMALL), chunk_states=SMALL)
    estimator = SimpleNamespace(predict=counted(lambda points: np.zeros(len(points)), SMALL))
    as_policy(mdp, estimator, "index", chunk_states=SMALL)
    mdp.policy(ts.Policy(mdp.grid, mdp.actions, counted(None, 0), chunk_states=SMALL))


def test_simulation_asks_a_rule_about_the_states_that_it_visits(mdp):
    def order(points):
        return np.where(points[:, 0] < 8, 3, 0)

    order.size = 2
    whole = (
        ts.simulate(mdp, order, 4, 0, paths=20),
        ts.estimate(mdp, order, rng=0, paths=9, periods=3),
    )
    watched = as_policy(mdp, counted(order, SMALL + 20 * 4), chunk_states=SMALL)
    played = ts.simulate(mdp, watched, 4, 0, paths=20)
    np.testing.assert_array_equal(played.states, whole[0].states)
    watched = as_policy(mdp, counted(order, SMALL + 9 * 3), chunk_states=SMALL)
    assert ts.estimate(mdp, watched, rng=0, paths=9, periods=3) == whole[1]


def test_feasibility_is_checked_by_slabs_and_counted_over_all():
    feasible = np.ones((30, 2), dtype=bool)
    feasible[[17, 25], 1] = False
    P = np.stack([np.eye(30), np.eye(30)])
    mdp = ts.MDP.from_arrays(P, np.zeros((30, 2)), 0.9, feasible=feasible)
    ones = counted(lambda points: np.ones(len(points)), 30)
    rule = ts.Policy(mdp.grid, mdp.actions, ones, chunk_states=SMALL)
    message = r"state=17, action=1 is not feasible \(2 of 30 states\)"
    with pytest.raises(ts.PolicyError, match=message):
        mdp.policy(rule)
    assert "table" not in vars(rule)


def test_a_rule_is_written_as_csv_by_slabs(mdp, table, tmp_path):
    mdp.policy(table).to_csv(tmp_path / "table.csv")
    known = counted(mdp.policy(table).rule, 825)
    rule = ts.Policy(mdp.grid, mdp.actions, known, "", "order", chunk_states=SMALL)
    rule.to_csv(tmp_path / "rule.csv")
    assert (tmp_path / "rule.csv").read_text() == (tmp_path / "table.csv").read_text()
    assert "table" not in vars(rule)


def test_a_rule_for_a_billion_states_is_played_and_estimated():
    """No array over all states is made on the way: one would not fit."""
    stock = ts.StateGrid(stock=range(10**5), transit=range(10**4))

    class Still:
        reward_scale = 1.0
        counts = frozenset()

        def step(self, states, actions, rng):
            return SimpleNamespace(next_states=states, rewards=1.0 * actions, ended=states < 0)

    mdp = ts.MDP(stock, (0, 1), 0.5, Still())  # type: ignore[arg-type]
    policy = mdp.policy(lambda stock, transit: 1 * (stock + transit >= 0))
    assert policy.size < 30
    for start in (None, 10**9 - 1, {"stock": 5, "transit": 7}):
        assert (
            ts.simulate(mdp, policy, 3, 0, paths=5, start=start).actions.tolist() == [[1] * 3] * 5
        )
        assert ts.estimate(mdp, policy, rng=0, paths=5, periods=2, start=start).mean == 1.5


@pytest.mark.parametrize(
    ("says", "message"),
    [
        (-1, r"must lie in 0\.\.4; stock=3, regime=0.5 gets -1 \(1 of 1 points\)"),
        (9, r"must lie in 0\.\.4; stock=3, regime=0.5 gets 9"),
        (0.7, r"action indices \(whole numbers\); got float64"),
        ([1, 1], r"one action for each of 1 points; its answer has shape \(2,\)"),
    ],
)
def test_whatever_a_rule_says_of_a_point_is_checked(mdp, says, message):
    def rule(points):
        return np.atleast_1d(says)

    rule.size = 1
    policy = ts.Policy(mdp.grid, mdp.actions, rule)
    for ask in (policy.act, policy.decide):
        with pytest.raises(ts.PolicyError, match=message):
            ask([3, 0.5])


def test_a_policy_under_another_name_keeps_its_table(mdp):
    rule = ts.Policy(mdp.grid, mdp.actions, counted(lambda points: np.zeros(len(points)), 825))
    assert mdp.policy(rule).table.sum() == mdp.policy(rule, name="none").table.sum() == 0


LABELS = [" high", "high", "high ", "two\nlines", "\r", "", '"quoted"', "a, b", "\t", "\u00a0x"]


@pytest.mark.parametrize("where", ["axis", "actions", "components"])
def test_a_table_read_back_keeps_every_label_with_its_spaces_and_line_breaks(where, tmp_path):
    n, k = len(LABELS), len(LABELS)
    axis, names = (LABELS, range(k)) if where == "axis" else (range(n), LABELS)
    mdp = ts.MDP.from_arrays(
        np.stack([np.eye(n)] * k),
        np.zeros((n, k)),
        0.9,
        grid={"place": axis},
        actions={"a": names, "b": [1]} if where == "components" else names,
    )
    policy = mdp.policy(np.random.default_rng(0).permutation(n))
    policy.to_csv(tmp_path / "p.csv")
    np.testing.assert_array_equal(mdp.policy(tmp_path / "p.csv").table, policy.table)


def test_spaces_that_people_type_around_a_cell_are_passed_over(tmp_path):
    mdp = ts.MDP.from_arrays(np.eye(2)[None], [[0.0], [0.0]], 0.9, grid={"place": ["in", "out"]})
    (tmp_path / "p.csv").write_text("place , action\n out, 0\nin ,0\n")
    np.testing.assert_array_equal(mdp.policy(tmp_path / "p.csv").table, [0, 0])
