"""scaling(build, scales, loss) -> Scaling: whether a rule learned small may be deployed large.

A problem of several sizes is solved at each, and compressed at all but the largest. Where the rules
say the same but for their numbers, each number is fitted as a function of the scale s,

    y(s) = a,    b / s,    b s,    a + b / s,    a + b / sqrt(s),    a + b sqrt(s)    or    a + b s,

whichever, fitted without the last of these sizes, predicts its number best; a later one must do
twice as well. The rule with the numbers predicted for the largest size is then certified there: its
loss is proven to be small enough or the rule is rejected, however good the fit.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise, repeat
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tessella.certificates.certificate import Certificate
from tessella.certificates.certify import certify
from tessella.errors import ArgumentError, PolicyError, counted, is_positive, require_type
from tessella.mdp.model import MDP
from tessella.mdp.policy import Policy
from tessella.mdp.rule_tree import (
    Exceptions,
    LabelSplit,
    Lookup,
    Node,
    RuleTree,
    Split,
    list_children,
)
from tessella.mdp.start import Start, start_distribution
from tessella.rounding import round_up
from tessella.rules.compress import compress
from tessella.rules.evaluator import PolicyEvaluator
from tessella.rules.loss_target import compute_reference, parse_loss
from tessella.rules.rule import Rule
from tessella.rules.rule_class import RuleClass
from tessella.solvers.execution_plan import ExecutionPlan, make_plan
from tessella.solvers.solution import Solution
from tessella.solvers.solve import solve

POWER_NAMES = {-1.0: "1 / s", -0.5: "1 / sqrt(s)", 0.5: "sqrt(s)", 1.0: "s"}  # of powers
TREND_FORMS = (  # power, and whether a is not 0
    (0.0, True),
    (-1.0, False),
    (1.0, False),
    *((power, True) for power in POWER_NAMES),
)
FORM_MAX_ERROR_RATIO = 0.5  # a later form must cut the error of an earlier one to this share


@dataclass(frozen=True)
class Trend:
    """One number of a rule as a function of the scale: ``a + b s**power``."""

    a: float
    b: float
    power: float
    prediction_error: float  # of the number at the last fitted size, predicted from the others

    def evaluate(self, scale: float) -> float:
        return self.a + self.b * scale**self.power

    def __str__(self) -> str:
        if not self.b:
            return f"{self.a:.6g}"
        if not self.a:
            return f"{self.b:.6g} x {POWER_NAMES[self.power]}"
        return f"{self.a:.6g} {'+-'[self.b < 0]} {abs(self.b):.6g} x {POWER_NAMES[self.power]}"


@dataclass(frozen=True, eq=False)
class Scaling:
    """Whether the rules of small sizes lead to one for the largest.

    Attributes:
        scales: ascending; the last was left out of the fit.
        solutions: one for each.
        rules: one for each but the last.
        trends: one for each number of the rules; empty where they are not of one form.
        loss_limit: what may be lost at the largest size, in the units of the model.
        worst: whether that is from the worst state, and not on average.
        predicted: the rule for the largest size; None where there is none.
        certificate: what that loses there.
        refusal: why no rule may be deployed; empty if one may.
    """

    scales: tuple[float, ...]
    solutions: tuple[Solution, ...] = field(repr=False)
    rules: tuple[Rule, ...] = field(repr=False)
    trends: tuple[Trend, ...]
    loss_limit: float
    worst: bool
    predicted: Policy | None = field(repr=False)
    certificate: Certificate | None = field(repr=False)
    refusal: str

    @property
    def carries_over(self) -> bool:
        """Whether the rule for the largest size meets the loss target there, proven."""
        return not self.refusal

    @property
    def rule(self) -> Policy:
        """The rule for the largest size; an error where there is none."""
        if self.predicted is None or self.refusal:
            raise PolicyError(f"no rule carries over to scale {self.scales[-1]:g}: {self.refusal}")
        return self.predicted

    @property
    def loss_bound(self) -> float:
        """What the rule for the largest size loses there at most; nan where there is none."""
        if self.certificate is None:
            return math.nan
        loss = self.certificate.worst_loss if self.worst else self.certificate.mean_loss
        return float(loss.upper)

    @property
    def loss_text(self) -> str:
        """The bound in words."""
        start = "from the worst state" if self.worst else "on average"
        return f"{round_up(self.loss_bound, 4)} {start}"

    def __str__(self) -> str:
        sizes = zip(self.scales, self.solutions, self._describe_sizes(), strict=True)
        rows = [
            f"  scale {s:g}: {solution.mdp.n_states:,} states, {description}"
            for s, solution, description in sizes
        ]
        trend_lines = [f"  number {i + 1}: {trend}" for i, trend in enumerate(self.trends)]
        head = f"Scaling of {self.solutions[0].mdp.name or 'a rule'}"
        return "\n".join([head, *rows, *trend_lines])

    def _describe_sizes(self) -> Iterator[str]:
        for rule in self.rules:
            yield f"a rule of the class '{rule.kind}' with {counted(rule.size, 'parameter')}"
        if self.refusal:
            yield f"no rule may be deployed: {self.refusal}"
        else:
            yield f"the rule may be deployed: it loses at most {self.loss_text}, proven"


def scaling(
    build: Callable[[float], MDP],
    scales: Sequence[float],
    loss: float | str = 0.01,
    *,
    start: Start = None,
    worst: bool = False,
    relative: bool = True,
    classes: Sequence[RuleClass] | None = None,
    tol: float | None = None,
    time_limit: float | None = None,
) -> Scaling:
    """Compress small sizes of a problem, predict the rule of the largest, and certify it there.

    Args:
        build: the model of a scale; all have the same axes and actions by name.
        scales: 4 to 8 numbers above 0, ascending; the last is the one to be predicted.
        loss: what may be lost, at every size, as ``compress`` reads it.
        start, worst, relative, classes, time_limit: as in ``compress``.
        tol: of the solutions, as in ``solve``.

    Returns:
        The rules of all sizes, how their numbers grow, and the rule for the largest size with its
        certificate, or why there is none.

    Raises:
        ArgumentError: scales are not 4 to 8 ascending numbers, or no rule of a small size is within
            the limit.

    Example:
        >>> naor = ts.problem("naor_admission")
        >>> report = ts.scaling(lambda n: naor.build(longest=int(n)), [10, 12, 14, 16],
        ...                     classes=[ts.LinearCuts()])
        >>> int(report.predicted.table.sum())    # admit while fewer than four are present
        4
    """
    scales = _check_scales(scales)
    loss, relative = parse_loss(loss, relative)
    models = [_build_model(build, scale) for scale in scales]
    solutions = [solve(mdp, tol=tol) for mdp in models[:-1]]
    solutions.append(solve(models[-1], plan=_plan_largest(models[-1], tol)))
    options: dict[str, Any] = {"start": start, "worst": worst, "relative": relative}
    options |= {"classes": classes, "time_limit": time_limit}
    rules = [compress(solution, loss, **options) for solution in solutions[:-1]]
    loss_limit = float(loss)
    if relative:
        largest = solutions[-1]
        weights = start_distribution(largest.mdp, start, largest.policy, largest.policy_plan)
        loss_limit *= compute_reference(PolicyEvaluator(largest, weights), "optimal")
    refusal = _explain_difference([rule.tree for rule in rules])
    report = Scaling(
        scales, tuple(solutions), tuple(rules), (), loss_limit, worst, None, None, refusal
    )
    return report if refusal else _predict_largest(report, start)


def _predict_largest(report: Scaling, start: Start) -> Scaling:
    """The report with the rule that is predicted for the largest size, and its certificate."""
    *scales, largest = report.scales
    solution = report.solutions[-1]
    mdp = solution.mdp
    roots = [rule.tree.root for rule in report.rules]
    numbers = zip(*map(iterate_numbers, roots), strict=True)
    trends = tuple(_fit_trend(scales, values) for values in numbers)
    predicted = (trend.evaluate(largest) for trend in trends)
    tree = RuleTree(mdp.grid, replace_numbers(roots[0], predicted), report.rules[0].size)
    report = replace(report, trends=trends, refusal=_explain_disorder(tree))
    if report.refusal:
        return report
    policy = Policy(mdp.grid, mdp.actions, tree, "predicted", mdp.action_name)
    certificate = certify(solution, policy, start)
    report = replace(report, predicted=policy, certificate=certificate)
    if report.loss_bound <= report.loss_limit:
        return report
    excess = f"it may lose {report.loss_text}, and the limit is {report.loss_limit:.4g}"
    return replace(report, refusal=excess)


def _plan_largest(mdp: MDP, tol: float | None) -> ExecutionPlan:
    """The plan of the largest size: of a certificate there, figures are all that is needed."""
    plan = make_plan(mdp, tol=tol)
    if plan.supports_blocks and mdp.n_states > plan.thresholds.blocks_min_states:
        return plan.using(certificate_route="blocks")
    return plan


def _check_scales(scales: Sequence[float]) -> tuple[float, ...]:
    values = tuple(scales)
    is_valid = 4 <= len(values) <= 8 and all(map(is_positive, values))
    if not is_valid or any(a >= b for a, b in pairwise(values)):
        requirement = "scaling needs 4 to 8 scales, numbers above 0 in ascending order"
        raise ArgumentError(requirement, value=f"got {values!r}")
    return tuple(map(float, values))


def _build_model(build: Callable[[float], MDP], scale: float) -> MDP:
    mdp = build(int(scale) if scale == int(scale) else scale)
    require_type("scaling", mdp, MDP)
    return mdp


def iterate_numbers(node: Node) -> Iterator[float]:
    """Weights and cuts of a rule tree, parents first."""
    if isinstance(node, Split):
        yield from (weight for _, weight in node.weights)
        yield from node.cuts
    for child in list_children(node):
        yield from iterate_numbers(child)


def replace_numbers(node: Node, numbers: Iterator[float]) -> Node:
    """The same tree with other weights and cuts, in the order of ``iterate_numbers``."""
    if isinstance(node, Split):
        weights = tuple((axis, next(numbers)) for axis, _ in node.weights)
        cuts = tuple(next(numbers) for _ in node.cuts)
        branches = tuple(replace_numbers(branch, numbers) for branch in node.branches)
        return Split(weights, cuts, branches)
    if isinstance(node, LabelSplit):
        inside = replace_numbers(node.inside, numbers)
        return LabelSplit(node.axis, node.labels, inside, replace_numbers(node.outside, numbers))
    return node


def _explain_difference(trees: Sequence[RuleTree]) -> str:
    """Why trees differ in more than their numbers; empty if they do not."""
    for tree in trees:
        if any(isinstance(node, Lookup | Exceptions) for node in tree.iterate_nodes()):
            return "a table of places has no numbers that follow the size"
    structures = [replace_numbers(tree.root, repeat(0.0)) for tree in trees]
    if any(structure != structures[0] for structure in structures):
        return "the rules of the sizes differ in more than their numbers"
    return ""


def _explain_disorder(tree: RuleTree) -> str:
    """Why the cuts of a tree are of no use; empty if they ascend."""
    for node in tree.iterate_nodes():
        if isinstance(node, Split) and list(node.cuts) != sorted(node.cuts):
            return "its cuts, predicted one by one, are out of order"
    return ""


def _fit_trend(scales: Sequence[float], values: tuple[float, ...]) -> Trend:
    """The form that predicts the last number best from those before it."""
    s = np.asarray(scales)
    y = np.asarray(values)
    rounding = 1e-12 * float(np.abs(y).max())
    best: Trend | None = None
    for power, has_intercept in TREND_FORMS:
        a, b = _fit_line(s[:-1], y[:-1], power, has_intercept)
        prediction_error = abs(a + b * float(s[-1]) ** power - values[-1])
        limit = math.inf
        if best is not None:
            limit = FORM_MAX_ERROR_RATIO * best.prediction_error - rounding
        if prediction_error < limit:
            best = Trend(*_fit_line(s, y, power, has_intercept), power, prediction_error)
    assert best is not None
    return best


def _fit_line(s: NDArray, y: NDArray, power: float, has_intercept: bool) -> tuple[float, float]:
    """a, b of the best ``a + b s**power`` by least squares; a is 0 without an intercept."""
    x = s**power
    if not power:
        return float(y.mean()), 0.0
    if not has_intercept:
        return 0.0, float(x @ y / (x @ x))
    slope, intercept = np.polyfit(x, y, 1)
    return float(intercept), float(slope)
