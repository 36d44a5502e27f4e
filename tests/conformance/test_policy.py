"""A policy written outside of the package is checked by querying it in several ways."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import pytest
from sklearn.tree import DecisionTreeClassifier

import tessella as ts
from tessella.conformance import check_policy

MDP = ts.benchmark("QUE-Lin")


@dataclass
class Threshold:
    level: float = 12
    size: object = 1

    def __call__(self, points):
        return (points[:, 0] <= self.level).astype(int)


@dataclass
class Moody(Threshold):
    asked: list = field(default_factory=list)

    def __call__(self, points):
        self.asked.append(len(points))
        return (points[:, 0] <= self.level + len(self.asked)).astype(int)


class Relative(Threshold):
    def __call__(self, points):
        return (points[:, 0] <= points[:, 0].mean()).astype(int)


class Squeezed(Threshold):
    def __call__(self, points):
        return np.squeeze(super().__call__(points))


def test_a_rule_an_estimator_and_a_table_pass():
    check_policy(MDP, Threshold())
    tree = DecisionTreeClassifier(max_depth=3, random_state=0)
    labels = np.asarray(MDP.actions)[Threshold()(MDP.grid.points)]
    check_policy(MDP, tree.fit(MDP.grid.points, labels))
    check_policy(MDP, np.zeros(MDP.grid.shape, int))


@pytest.mark.parametrize(
    ("policy", "said"),
    [
        (Moody(), "queried about some states in another order, it decides otherwise: queue="),
        (Relative(), "it decides otherwise"),
        (Squeezed(), "queried about some states alone, it fails: a rule must name one action for"),
        (Threshold(size=-1), "size must be the count of the numbers that it stores, .*; got -1"),
        (np.full(MDP.grid.shape, 7), "it is not a policy of QUE-Lin: action indices must lie in"),
    ],
    ids=["moody", "relative", "squeezed", "size", "table"],
)
def test_a_policy_that_keeps_no_promise_is_told_which(policy, said):
    with pytest.raises(AssertionError, match=said):
        check_policy(MDP, policy)
