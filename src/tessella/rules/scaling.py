"""scaling(build, scales, loss) -> Scaling: whether a rule learned small may be deployed large.

A problem of several sizes is solved at each, and compressed at all but the largest. Where the rules
say the same but for their numbers, each number is fitted as a function of the scale s,

    y(s) = a,    b / s,    b s,    a + b / s,    a + b / sqrt(s),    a + b sqrt(s)    or    a + b s,

whichever, fitted without the last of these sizes, foretells its number best; a later one must do
twice as well. The rule with the numbers foretold for the largest size is then judged there by a
certificate: what it promises is proven there or refused, however good the fit.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tessella.certificates.certificate import Certificate
from tessella.certificates.certify import certify
from tessella.certificates.gain_certificate import GainCertificate
from tessella.certificates.in_slabs import CertificateSummary, certify_in_slabs
from tessella.certificates.total_certificate import TotalCertificate
from tessella.errors import ArgumentError, PolicyError, counted, expect, is_positive
from tessella.mdp.model import MDP
from tessella.mdp.policy import Policy
from tessella.mdp.program import Among, Except, Lookup, Node, Program, Split
from tessella.mdp.start import Start
from tessella.rounding import round_up
from tessella.rules.compress import compress
from tessella.rules.rule import Rule
from tessella.rules.rule_class import RuleClass
from tessella.solvers.solution import Solution
from tessella.solvers.solve import solve

NAMES = {-1.0: "1 / s", -0.5: "1 / sqrt(s)", 0.5: "sqrt(s)", 1.0: "s"}  # of powers
FORMS = ((0.0, True), (-1.0, False), (1.0, False), *((power, True) for power in NAMES))
TWICE = 0.5  # a later form must cut the error of an earlier one to this share
IN_SLABS = 1_000_000  # states from which on a certificate is made in slabs


@dataclass(frozen=True)
class Trend:
    """One number of a rule as a function of the scale: ``a + b s**power``."""

    a: float
    b: float
    power: float
    seen: tuple[float, ...]  # at the sizes that it was fitted to
    error: float  # by how much the last of these was missed, foretold from the others

    def at(self, scale: float) -> float:
        return self.a + self.b * scale**self.power

    def __str__(self) -> str:
        if not self.b:
            return f"{self.a:.6g}"
        if not self.a:
            return f"{self.b:.6g} x {NAMES[self.power]}"
        return f"{self.a:.6g} {'+-'[self.b < 0]} {abs(self.b):.6g} x {NAMES[self.power]}"


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
        foretold: the rule for the largest size; None where there is none.
        certificate: what that loses there.
        refusal: why it may not be deployed; empty if it may.
    """

    scales: tuple[float, ...]
    solutions: tuple[Solution, ...] = field(repr=False)
    rules: tuple[Rule, ...] = field(repr=False)
    trends: tuple[Trend, ...]
    promise: float
    worst: bool
    foretold: Policy | None = field(repr=False)
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
        if self.foretold is None or self.refusal:
            raise PolicyError(f"no rule carries over to scale {self.scales[-1]:g}: {self.refusal}")
        return self.foretold

    def __str__(self) -> str:
        rows = [
            f"  scale {s:g}: {solution.mdp.n_states:,} states, {told}"
            for s, solution, told in zip(self.scales, self.solutions, self._told(), strict=True)
        ]
        fits = [f"  number {i + 1}: {trend}" for i, trend in enumerate(self.trends)]
        return "\n".join([f"Scaling of {self.solutions[0].mdp.name or 'a rule'}", *rows, *fits])

    def _told(self) -> Iterator[str]:
        for rule in self.rules:
            yield f"a rule of the class '{rule.kind}' with {counted(rule.size, 'number')}"
        if self.refusal:
            yield f"no rule may be deployed: {self.refusal}"
        else:
            loss, where = _figure(self.certificate, self.worst), "from the worst state"
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
    """Compress small sizes of a problem, foretell the rule of the largest, and certify it there.

    Args:
        build: the model of a scale; all have the same axes and actions by name.
        scales: 4 to 8 numbers above 0, ascending; the last is the one to be foretold.
        loss: what may be lost, at every size, as ``compress`` reads it.
        start, worst, relative, classes, time_limit: as in ``compress``.
        tol: of the solutions, as in ``solve``.
    """
    scales = _checked(scales)
    solutions = [solve(_built(build, scale), tol=tol) for scale in scales]
    wanted: dict[str, Any] = {"start": start, "worst": worst, "relative": relative}
    wanted |= {"classes": classes, "time_limit": time_limit}
    rules = [compress(solution, loss, **wanted) for solution in solutions[:-1]]
    found = scales, tuple(solutions), tuple(rules)
    promise = loss * _size(solutions[-1], start) if relative else float(loss)
    roots, large = [rule.program.root for rule in rules], solutions[-1].mdp
    refusal = _unlike(roots)
    if refusal:
        return Scaling(*found, (), promise, worst, None, None, refusal)
    trends = tuple(map(_fitted, [scales[:-1]] * len(list(numbers_in(roots[0]))), _seen(roots)))
    foretold = iter([trend.at(scales[-1]) for trend in trends])
    root = with_numbers(roots[0], foretold)
    refusal = _disordered(root)
    if refusal:
        return Scaling(*found, trends, promise, worst, None, None, refusal)
    program = Program(large.grid, root, rules[0].size)
    policy = Policy(large.grid, large.actions, program, "foretold", large.action_name)
    made = (certify_in_slabs if large.n_states > IN_SLABS else certify)(
        solutions[-1], policy, start
    )
    lost = _figure(made, worst)
    where = "from the worst state" if worst else "on average"
    if not lost <= promise:
        refusal = f"it may lose {round_up(lost, 4)} {where}, and {promise:.4g} is promised"
    return Scaling(*found, trends, promise, worst, policy, made, refusal)


def _checked(scales: Sequence[float]) -> tuple[float, ...]:
    rule = "scaling needs 4 to 8 scales, numbers above 0 in ascending order"
    given = tuple(scales)
    if not (4 <= len(given) <= 8 and all(map(is_positive, given))):
        raise ArgumentError(rule, value=f"got {given!r}")
    if any(a >= b for a, b in pairwise(given)):
        raise ArgumentError(rule, value=f"got {given!r}")
    return tuple(map(float, given))


def _built(build: Callable[[float], MDP], scale: float) -> MDP:
    mdp = build(int(scale) if scale == int(scale) else scale)
    expect("scaling", mdp, MDP)
    return mdp


def _size(solution: Solution, start: Start) -> float:
    """|J(pi*)|, no larger than it surely is."""
    from tessella.mdp.start import start_distribution

    if solution.gain is not None:
        return abs(solution.gain) - solution.error_bound
    mdp = solution.mdp
    uniform = start is None and mdp.start is None
    weights = None if uniform else start_distribution(mdp, start, solution.policy)
    value = solution.value.ravel()
    mean = float(value.mean() if weights is None else weights @ value)
    return max(abs(mean) * (1 - 1e-9) - solution.error_bound, 0.0)


def _figure(certificate: Any, worst: bool) -> float:
    loss = certificate.worst_loss if worst else certificate.mean_loss
    return float(loss.upper)


def numbers_in(node: Node) -> Iterator[float]:
    """Weights and cuts of a program, parents first."""
    if isinstance(node, Split):
        yield from (weight for _, weight in node.weights)
        yield from node.cuts
        for branch in node.branches:
            yield from numbers_in(branch)
    elif isinstance(node, Among):
        yield from numbers_in(node.inside)
        yield from numbers_in(node.outside)


def with_numbers(node: Node, numbers: Iterator[float]) -> Node:
    """The same program with other weights and cuts, in the order of ``numbers_in``."""
    if isinstance(node, Split):
        weights = tuple((axis, next(numbers)) for axis, _ in node.weights)
        cuts = tuple(next(numbers) for _ in node.cuts)
        branches = tuple(with_numbers(branch, numbers) for branch in node.branches)
        return Split(weights, cuts, branches)
    if isinstance(node, Among):
        inside = with_numbers(node.inside, numbers)
        return Among(node.axis, node.labels, inside, with_numbers(node.outside, numbers))
    return node


def _nodes(node: Node) -> Iterator[Node]:
    yield node
    if isinstance(node, Split):
        for branch in node.branches:
            yield from _nodes(branch)
    elif isinstance(node, Among):
        yield from _nodes(node.inside)
        yield from _nodes(node.outside)


def _unlike(roots: Sequence[Node]) -> str:
    """Why programs are not the same but for their numbers; empty if they are."""
    for root in roots:
        if any(isinstance(node, Lookup | Except) for node in _nodes(root)):
            return "a table of places has no numbers that follow the size"
    bare = [with_numbers(root, iter([0.0] * len(list(numbers_in(root))))) for root in roots]
    if any(one != bare[0] for one in bare):
        return "the rules of the sizes differ in more than their numbers"
    return ""


def _disordered(root: Node) -> str:
    for node in _nodes(root):
        if isinstance(node, Split) and list(node.cuts) != sorted(node.cuts):
            return "its cuts, foretold one by one, are out of order"
    return ""


def _seen(roots: Sequence[Node]) -> list[tuple[float, ...]]:
    """For each number of the programs, what it is at every size."""
    return list(zip(*(tuple(numbers_in(root)) for root in roots), strict=True))


def _fitted(scales: Sequence[float], seen: tuple[float, ...]) -> Trend:
    """The form that foretells the last number best from those before it."""
    s, y = np.asarray(scales), np.asarray(seen)
    best: Trend | None = None
    for power, begins in FORMS:
        a, b = _line(s[:-1], y[:-1], power, begins)
        miss = abs(a + b * float(s[-1]) ** power - seen[-1])
        if best is None or miss < TWICE * best.error - 1e-12 * float(np.abs(y).max()):
            best = Trend(*_line(s, y, power, begins), power, seen, miss)
    assert best is not None
    return best


def _line(s: NDArray, y: NDArray, power: float, begins: bool) -> tuple[float, float]:
    """a, b of the best ``a + b s**power`` by least squares; a is 0 unless it ``begins`` there."""
    x = s**power
    if not power:
        return float(y.mean()), 0.0
    if not begins:
        return 0.0, float(x @ y / (x @ x))
    slope, begin = np.polyfit(x, y, 1)
    return float(begin), float(slope)
