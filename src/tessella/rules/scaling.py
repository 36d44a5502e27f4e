"""scaling(build, scales, loss) -> Scaling: whether a rule learned small may be deployed large.

A problem of several sizes is solved at each, and compressed at all but the largest. Where the rules
say the same but for their numbers, each number is fitted as a function of the scale s,

    y(s) = a,    b / s,    b s,    a + b / s,    a + b / sqrt(s),    a + b sqrt(s)    or    a + b s,

whichever, fitted without the last of these sizes, predicts its number best; a later one must do
twice as well. The rule with the numbers predicted for the largest size is then certified there: its
loss is proven to be small enough or the rule is refused, however good the fit.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tessella.certificates.certificate import Certificate
from tessella.certificates.certify import certify
from tessella.certificates.gain_certificate import GainCertificate
from tessella.certificates.in_slabs import CertificateSummary, certify_in_slabs
from tessella.certificates.total_certificate import TotalCertificate
from tessella.errors import ArgumentError, PolicyError, counted, is_positive, require_type
from tessella.mdp.model import MDP
from tessella.mdp.policy import Policy
from tessella.mdp.rule_tree import Among, Except, Lookup, Node, RuleTree, Split
from tessella.mdp.start import Start
from tessella.rounding import round_up
from tessella.rules.compress import compress
from tessella.rules.rule import Rule
from tessella.rules.rule_class import RuleClass
from tessella.solvers.solution import Solution
from tessella.solvers.solve import solve


class TrendForm(NamedTuple):
    """``a + b s**power``, where a is 0 unless the form has an intercept."""

    power: float
    has_intercept: bool


POWER_NAMES = {-1.0: "1 / s", -0.5: "1 / sqrt(s)", 0.5: "sqrt(s)", 1.0: "s"}  # of powers
TREND_FORMS = (
    TrendForm(0.0, has_intercept=True),
    TrendForm(-1.0, has_intercept=False),
    TrendForm(1.0, has_intercept=False),
    *(TrendForm(power, has_intercept=True) for power in POWER_NAMES),
)
FORM_MAX_ERROR_RATIO = 0.5  # a later form must cut the error of an earlier one to this share


@dataclass(frozen=True)
class Trend:
    """One number of a rule as a function of the scale: ``a + b s**power``."""

    a: float
    b: float
    power: float
    fitted_values: tuple[float, ...]  # at the sizes that it was fitted to
    prediction_error: float  # of the last of these, predicted from the others

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
        promise: what may be lost at the largest size, in the units of the model.
        worst: whether that is from the worst state, and not on average.
        predicted: the rule for the largest size; None where there is none.
        certificate: what that loses there.
        refusal: why it may not be deployed; empty if it may.
    """

    scales: tuple[float, ...]
    solutions: tuple[Solution, ...] = field(repr=False)
    rules: tuple[Rule, ...] = field(repr=False)
    trends: tuple[Trend, ...]
    promise: float
    worst: bool
    predicted: Policy | None = field(repr=False)
    certificate: Certificate | GainCertificate | TotalCertificate | CertificateSummary | None = (
        field(repr=False)
    )
    refusal: str

    @property
    def carries_over(self) -> bool:
        """Whether the rule for the largest size keeps the promise there, proven."""
        return not self.refusal

    @property
    def rule(self) -> Policy:
        """The rule for the largest size; refused where it does not carry over."""
        if self.predicted is None or self.refusal:
            raise PolicyError(f"no rule carries over to scale {self.scales[-1]:g}: {self.refusal}")
        return self.predicted

    def __str__(self) -> str:
        rows = [
            f"  scale {s:g}: {solution.mdp.n_states:,} states, {description}"
            for s, solution, description in zip(
                self.scales, self.solutions, self._describe_sizes(), strict=True
            )
        ]
        trend_lines = [f"  number {i + 1}: {trend}" for i, trend in enumerate(self.trends)]
        return "\n".join(
            [f"Scaling of {self.solutions[0].mdp.name or 'a rule'}", *rows, *trend_lines]
        )

    def _describe_sizes(self) -> Iterator[str]:
        for rule in self.rules:
            yield f"a rule of the class '{rule.kind}' with {counted(rule.size, 'number')}"
        if self.refusal:
            yield f"no rule may be deployed: {self.refusal}"
        else:
            loss = _get_loss_bound(self.certificate, self.worst)
            where = "from the worst state"
            where = where if self.worst else "on average"
            yield f"the rule may be deployed: it loses at most {round_up(loss, 4)} {where}, proven"


def scaling(
    build: Callable[[float], MDP],
    scales: Sequence[float],
    loss: float = 0.01,
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
    """
    scales = _check_scales(scales)
    solutions = [solve(_build_model(build, scale), tol=tol) for scale in scales]
    options: dict[str, Any] = {"start": start, "worst": worst, "relative": relative}
    options |= {"classes": classes, "time_limit": time_limit}
    rules = [compress(solution, loss, **options) for solution in solutions[:-1]]
    common = scales, tuple(solutions), tuple(rules)
    loss_limit = loss * _bound_optimal_size(solutions[-1], start) if relative else float(loss)
    roots = [rule.program.root for rule in rules]
    large = solutions[-1].mdp
    reason = _explain_difference(roots)
    if reason:
        return Scaling(*common, (), loss_limit, worst, None, None, reason)
    trends = tuple(
        map(
            _fit_trend,
            [scales[:-1]] * len(list(iterate_numbers(roots[0]))),
            _collect_numbers(roots),
        )
    )
    predictions = iter([trend.evaluate(scales[-1]) for trend in trends])
    root = replace_numbers(roots[0], predictions)
    reason = _explain_disorder(root)
    if reason:
        return Scaling(*common, trends, loss_limit, worst, None, None, reason)
    tree = RuleTree(large.grid, root, rules[0].size)
    policy = Policy(large.grid, large.actions, tree, "foretold", large.action_name)
    in_blocks = solutions[-1].policy_plan.certificate == "blocks"
    certificate = (certify_in_slabs if in_blocks else certify)(solutions[-1], policy, start)
    loss_bound = _get_loss_bound(certificate, worst)
    where = "from the worst state" if worst else "on average"
    if not loss_bound <= loss_limit:
        reason = f"it may lose {round_up(loss_bound, 4)} {where}, and {loss_limit:.4g} is promised"
    return Scaling(*common, trends, loss_limit, worst, policy, certificate, reason)


def _check_scales(scales: Sequence[float]) -> tuple[float, ...]:
    requirement = "scaling needs 4 to 8 scales, numbers above 0 in ascending order"
    given = tuple(scales)
    if not (4 <= len(given) <= 8 and all(map(is_positive, given))):
        raise ArgumentError(requirement, value=f"got {given!r}")
    if any(a >= b for a, b in pairwise(given)):
        raise ArgumentError(requirement, value=f"got {given!r}")
    return tuple(map(float, given))


def _build_model(build: Callable[[float], MDP], scale: float) -> MDP:
    mdp = build(int(scale) if scale == int(scale) else scale)
    require_type("scaling", mdp, MDP)
    return mdp


def _bound_optimal_size(solution: Solution, start: Start) -> float:
    """|J(pi*)|, no larger than it surely is."""
    from tessella.mdp.start import start_distribution

    if solution.gain is not None:
        return abs(solution.gain) - solution.error_bound
    mdp = solution.mdp
    uniform = start is None and mdp.start is None
    weights = (
        None if uniform else start_distribution(mdp, start, solution.policy, solution.policy_plan)
    )
    value = solution.value.ravel()
    mean = float(value.mean() if weights is None else weights @ value)
    return max(abs(mean) * (1 - 1e-9) - solution.error_bound, 0.0)


def _get_loss_bound(certificate: Any, worst: bool) -> float:
    loss = certificate.worst_loss if worst else certificate.mean_loss
    return float(loss.upper)


def iterate_numbers(node: Node) -> Iterator[float]:
    """Weights and cuts of a rule tree, parents first."""
    if isinstance(node, Split):
        yield from (weight for _, weight in node.weights)
        yield from node.cuts
        for branch in node.branches:
            yield from iterate_numbers(branch)
    elif isinstance(node, Among):
        yield from iterate_numbers(node.inside)
        yield from iterate_numbers(node.outside)


def replace_numbers(node: Node, numbers: Iterator[float]) -> Node:
    """The same tree with other weights and cuts, in the order of ``iterate_numbers``."""
    if isinstance(node, Split):
        weights = tuple((axis, next(numbers)) for axis, _ in node.weights)
        cuts = tuple(next(numbers) for _ in node.cuts)
        branches = tuple(replace_numbers(branch, numbers) for branch in node.branches)
        return Split(weights, cuts, branches)
    if isinstance(node, Among):
        inside = replace_numbers(node.inside, numbers)
        return Among(node.axis, node.labels, inside, replace_numbers(node.outside, numbers))
    return node


def _iterate_nodes(node: Node) -> Iterator[Node]:
    yield node
    if isinstance(node, Split):
        for branch in node.branches:
            yield from _iterate_nodes(branch)
    elif isinstance(node, Among):
        yield from _iterate_nodes(node.inside)
        yield from _iterate_nodes(node.outside)


def _explain_difference(roots: Sequence[Node]) -> str:
    """Why trees differ in more than their numbers; empty if they do not."""
    for root in roots:
        if any(isinstance(node, Lookup | Except) for node in _iterate_nodes(root)):
            return "a table of places has no numbers that follow the size"
    structures = [
        replace_numbers(root, iter([0.0] * len(list(iterate_numbers(root))))) for root in roots
    ]
    if any(structure != structures[0] for structure in structures):
        return "the rules of the sizes differ in more than their numbers"
    return ""


def _explain_disorder(root: Node) -> str:
    for node in _iterate_nodes(root):
        if isinstance(node, Split) and list(node.cuts) != sorted(node.cuts):
            return "its cuts, foretold one by one, are out of order"
    return ""


def _collect_numbers(roots: Sequence[Node]) -> list[tuple[float, ...]]:
    """For each number of the trees, its value at every size."""
    return list(zip(*(tuple(iterate_numbers(root)) for root in roots), strict=True))


def _fit_trend(scales: Sequence[float], values: tuple[float, ...]) -> Trend:
    """The form that predicts the last number best from those before it."""
    s = np.asarray(scales)
    y = np.asarray(values)
    best: Trend | None = None
    for power, has_intercept in TREND_FORMS:
        a, b = _fit_line(s[:-1], y[:-1], power, has_intercept)
        prediction_error = abs(a + b * float(s[-1]) ** power - values[-1])
        if (
            best is None
            or prediction_error
            < FORM_MAX_ERROR_RATIO * best.prediction_error - 1e-12 * float(np.abs(y).max())
        ):
            best = Trend(*_fit_line(s, y, power, has_intercept), power, values, prediction_error)
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
