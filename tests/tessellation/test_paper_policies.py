"""The paper's policies, from the solver to the published table."""

import runpy
from pathlib import Path

import numpy as np
import pytest

import tessella as ts
from tessella.errors import ArgumentError, PolicyError
from tessella.mdp.policy import Policy
from tessella.tessellation import (
    base_stock,
    compare,
    measure,
    monotone,
    reorder_point,
    section,
    tessellate,
)

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def solution():
    return ts.solve(ts.benchmark("INV-Mix"))


def test_a_solution_and_its_policy_have_the_same_tessellation(solution):
    whole = tessellate(solution)
    for policy in (solution.policy, solution.policy.table, solution.policy.table.ravel()):
        same = tessellate(solution.mdp, policy)
        np.testing.assert_array_equal(same.cells, whole.cells)
        assert same.margin is None
    assert whole.name == "INV-Mix"
    assert whole.action_name == solution.mdp.action_name
    np.testing.assert_array_equal(whole.margin, solution.margin)


def test_any_policy_of_the_model_can_be_tessellated_and_compared(solution):
    optimal = tessellate(solution)
    never = tessellate(solution, np.zeros(solution.mdp.grid.shape, int))
    found = compare(optimal, never)
    assert found.disagreement == pytest.approx((solution.policy.table != 0).mean())
    assert measure(never).region_components == 1


def test_a_margin_profile_is_the_share_of_states_up_to_each_margin(solution):
    geometry = measure(tessellate(solution))
    eps = np.array([[0.0, 0.01], [0.1, 10.0]])
    expected = [[(solution.margin <= e).mean() for e in row] for row in eps]
    np.testing.assert_allclose(geometry.margin_profile(eps), expected)
    assert geometry.margin_profile(np.inf) == 1


def test_margins_stay_with_their_states_in_parts(solution):
    part = section(tessellate(solution), regime=3)
    np.testing.assert_array_equal(part.margin, solution.margin[:, 3])
    np.testing.assert_array_equal(part.table, solution.policy.table[:, 3])
    assert part.name == "regime = 3"
    inner = measure(tessellate(solution), rim=1)
    expected = (solution.margin[1:-1, 1:-1] <= 0.1).mean()
    assert inner.margin_profile(0.1) == pytest.approx(expected)


def test_the_order_falls_with_stock_and_rises_with_demand(solution):
    t = tessellate(solution)
    assert monotone(t, "stock", "falls")
    assert monotone(t, "regime", "rises")


def test_the_fixed_cost_of_an_order_is_what_turns_base_stock_into_s_S(solution):
    with_cost = tessellate(solution)
    without = tessellate(ts.solve(ts.inventory(fixed_cost=0)))
    assert reorder_point(with_cost, "stock")
    assert not base_stock(with_cost, "stock")
    assert base_stock(without, "stock")


def test_a_model_without_a_policy_and_a_policy_of_another_model_are_refused(solution):
    with pytest.raises(ArgumentError, match="needs a solution, or a model and a policy"):
        tessellate(solution.mdp)
    queue = ts.benchmark("QUE-Mix")
    with pytest.raises(PolicyError, match="the policy is for"):
        tessellate(queue, solution.policy)
    renamed = Policy.from_table(solution.mdp.grid, tuple("abcde"), solution.policy.table)
    with pytest.raises(PolicyError, match="the policy has actions"):
        tessellate(solution.mdp, renamed)
    with pytest.raises(PolicyError, match="action indices must lie in"):
        tessellate(queue, np.full(queue.grid.shape, 2))


def test_a_section_must_be_on_the_grid_and_leave_an_axis(solution):
    t = tessellate(solution)
    with pytest.raises(ArgumentError, match="regime=99 is not on the grid"):
        section(t, regime=99)
    with pytest.raises(ArgumentError, match="leave at least one axis"):
        section(t, stock=0, regime=0)


def test_the_published_table_is_what_the_code_gives():
    # Which states witness that no linear rule exists is the linear program's choice.
    def fixed(text):
        return [line for line in text.splitlines() if "linear" not in line or line[0] == "|"]

    page = runpy.run_path(str(ROOT / "scripts" / "geometry_table.py"))["render_page"]()
    published = (ROOT / "docs" / "generated" / "geometry.md").read_text()
    assert fixed(page) == fixed(published)
