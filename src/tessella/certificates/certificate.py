"""What a policy loses against the optimum, with every figure enclosed: one ``Certificate``.

Every certificate states what is lost from the start and from the worst state. What proves it, and
what else is known, are parts, each present or None, by criterion and size:

    discounted, or a horizon   figures, values, decisions, decomposition, bounds    (``start``)
    the same, in blocks        figures, and how many blocks
    an average                 relative_values
    a total                    value_bounds                                         (``start``)

An average says nothing of single decisions: how far its relative values are from the exact ones
depends on how long it takes to come back to a state, and the document does not bound that.

A file has the fields of the record, and those parts that are present. Every number is written so
that it reads back to the same float; grids are nested lists, an enclosed number is
``[value, lower, upper]``. JSON has no infinity: the margin of a state with only one feasible action
is null.
"""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from functools import cached_property
from pathlib import Path
from typing import Any, Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

from tessella.certificates.decisions import MarginError, StateDecisions, count_errors_by_margin
from tessella.certificates.interval import Interval, IntervalArray
from tessella.certificates.loss_bounds import Decomposition, LossBounds
from tessella.certificates.record_file import FILE_CONVERTERS, RecordReader, read_policy
from tessella.certificates.summary import write_paragraphs, write_summary
from tessella.criteria.criterion import Criterion
from tessella.errors import FileError, TessellaError
from tessella.files import read_field, read_json, wrap_read_errors, write_json
from tessella.grid import StateGrid
from tessella.mdp.actions import actions_to_json
from tessella.mdp.model import MDP
from tessella.mdp.policy import Policy
from tessella.support.json_values import to_json_value
from tessella.support.sense import Sense, sense_of

FORMAT = "tessella certificate"
VERSION = 5  # of the file format
FILE_KIND = "a certificate"
VALUE_PARTS = ("start", "figures", "values", "decisions", "decomposition", "bounds")
OPTIONAL_PARTS = (*VALUE_PARTS, "relative_values", "value_bounds", "blocks", "constrained")
MODEL_FIELDS = ("model", "fingerprint", "minimise", "action_name", "criterion")

Figure = TypeVar("Figure")


class NotStated(TessellaError, AttributeError):  # noqa: N818 (it says what is missing)
    """A figure that this certificate does not state."""


class PartFigure(Generic[Figure]):
    """A figure of a part as an attribute of the certificate: ``certificate.occupancy``."""

    def __init__(self, part: str) -> None:
        self.part = part

    def __set_name__(self, owner: type, name: str) -> None:
        self.name = name

    def __get__(self, certificate: Certificate | None, owner: type) -> Figure:
        if certificate is None:
            return self  # type: ignore[return-value]
        record = getattr(certificate, self.part)
        if record is None:
            requirement = f"{certificate.kind} does not state {self.name!r}"
            raise NotStated(requirement, value=f"it has no part {self.part!r}")
        return getattr(record, self.name)


@dataclass(frozen=True, eq=False)
class ValueFigures:
    """The figures that are one number each, of values that are sums of rewards.

    Attributes:
        optimal_value_error, policy_value_error: how far either value may be off, in any state.
        tolerance: an action within this of the best is no costly error.
        policy_error: share of states whose action differs from the optimal policy's.
        costly_error: share of states whose action is worse than the best by more than the
            tolerance (the set-valued policy error).
        value_gap: the paper's: mean local loss over all states / (1 - discount).
        worst_state: flat index of the state with the largest loss.
    """

    optimal_value_error: float
    policy_value_error: float
    tolerance: float
    policy_error: Interval
    costly_error: Interval
    value_gap: Interval
    worst_state: int


@dataclass(frozen=True, eq=False)
class StateValues:
    """V* and V of the policy, each within its error everywhere; ``losses`` is V* - V. (grid)"""

    optimal_value: NDArray[np.float64]
    policy_value: NDArray[np.float64]
    losses: IntervalArray


@dataclass(frozen=True, eq=False)
class RelativeValues:
    """Relative values from which gains are proven; their own error is not stated. (grid)

    A ``rest`` is added to its value: the digits that a float does not hold, where chains hardly
    leave a set of states; else 0.
    """

    optimal_value: NDArray[np.float64]
    optimal_value_rest: NDArray[np.float64]
    policy_value: NDArray[np.float64]
    policy_value_rest: NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class ValueBounds:
    """Vectors between which V* and V of the policy lie. (grid)"""

    optimal_lower: NDArray[np.float64]
    optimal_upper: NDArray[np.float64]
    policy_lower: NDArray[np.float64]
    policy_upper: NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class ConstraintPart:
    """One constraint, and what proves that the policy satisfies it.

    Attributes:
        name: of its measure.
        numerator, denominator: of the measure, weights of counts; the empty name is a number.
        bound: ``at_least`` or ``at_most``, with the level.
        proven: the same with a level that the policy reaches.
        price: of the constraint in the dual bound.
        certificate: of the model whose only policy is this one, and whose reward is
            numerator - level x denominator at the proven level, or the negative for ``at_most``.
    """

    name: str
    numerator: dict[str, float]
    denominator: dict[str, float]
    bound: dict[str, float]
    proven: dict[str, float]
    price: float
    certificate: Certificate


@dataclass(frozen=True, eq=False)
class ConstrainedPart:
    """Constraints that the policy satisfies, and its loss against the best policy that does.

    Attributes:
        counts: hash of what the model's file says of its measures.
        constraints: each of them.
        lagrangian: certificate of the model that pays the excess of each constraint, too, at its
            price: its optimum is the dual bound.
        loss: no policy that satisfies the constraints earns more by over this, even one that draws
            its actions.
    """

    counts: str
    constraints: tuple[ConstraintPart, ...]
    lagrangian: Certificate
    loss: float


@dataclass(frozen=True, eq=False, kw_only=True)
class Certificate:
    """What a policy loses, and how sure that is, of any criterion and size. Made by ``certify``.

    Figures of a part are attributes too (``certificate.occupancy``); of a part that is absent,
    asking for one is an error that says so.

    Attributes:
        model, fingerprint, action_name: the model.
        minimise: whether the model is stated in costs; then the summary speaks of them.
        criterion: what a value means.
        policy: the policy.
        optimal_mean, policy_mean: J, the value of the optimum and of the policy from the start; of
            an average the gain, the reward per period from every state.
        mean_loss: what the policy loses from the start; of an average, in each period.
        worst_loss: from the worst state.
        relative_loss: ``mean_loss`` over the size of the optimal value; None where that may be 0.
        start: (grid) distribution of the first state; None where it does not matter, or in blocks.
        figures: errors and shares of states.
        values: both values and the loss, by state.
        decisions: what each decision loses, by state.
        decomposition: where the mean loss comes from, and the time spent in each state.
        bounds: what the paper's bounds say about the mean loss.
        relative_values: what proves an average.
        value_bounds: what proves a total.
        blocks: how many blocks the grid was divided into; None for the whole.
        constrained: constraints that the policy satisfies, and what it loses against the best such.
        mdp: the model itself; None for a certificate from a file or another process.
    """

    model: str
    fingerprint: str
    minimise: bool
    action_name: str
    criterion: Criterion
    policy: Policy
    optimal_mean: Interval
    policy_mean: Interval
    mean_loss: Interval
    worst_loss: Interval
    relative_loss: Interval | None
    start: NDArray[np.float64] | None = field(default=None, repr=False)
    figures: ValueFigures | None = field(default=None, repr=False)
    values: StateValues | None = field(default=None, repr=False)
    decisions: StateDecisions | None = field(default=None, repr=False)
    decomposition: Decomposition | None = field(default=None, repr=False)
    bounds: LossBounds | None = field(default=None, repr=False)
    relative_values: RelativeValues | None = field(default=None, repr=False)
    value_bounds: ValueBounds | None = field(default=None, repr=False)
    blocks: int | None = None
    constrained: ConstrainedPart | None = field(default=None, repr=False)
    mdp: MDP | None = field(default=None, repr=False)

    policy_error = PartFigure[Interval]("figures")
    costly_error = PartFigure[Interval]("figures")
    value_gap = PartFigure[Interval]("figures")
    tolerance = PartFigure[float]("figures")
    optimal_value_error = PartFigure[float]("figures")
    policy_value_error = PartFigure[float]("figures")
    worst_state = PartFigure[int]("figures")
    optimal_value = PartFigure[NDArray[np.float64]]("values")
    policy_value = PartFigure[NDArray[np.float64]]("values")
    losses = PartFigure[IntervalArray]("values")
    optimal = PartFigure[NDArray[np.int32]]("decisions")
    margin = PartFigure[NDArray[np.float64]]("decisions")
    margin_slack = PartFigure[float]("decisions")
    local_losses = PartFigure[IntervalArray]("decisions")
    occupancy = PartFigure[NDArray[np.float64]]("decomposition")
    occupancy_error = PartFigure[float]("decomposition")

    def __post_init__(self) -> None:
        stated = {name for name in OPTIONAL_PARTS if getattr(self, name) is not None}
        expected = self._find_expected_parts()
        if stated - {"constrained"} != expected:
            needed, got = (", ".join(sorted(names)) or "none" for names in (expected, stated))
            raise ValueError(f"{self.kind} has the parts {needed}; got {got}")
        if self.bounds is not None:
            self._require_state("localisation.example", self.bounds.localisation.example)
        if self.figures is not None:
            self._require_state("worst_state", self.figures.worst_state)

    def _require_state(self, name: str, state: int | None) -> None:
        if state is not None and state >= self.grid.size:
            raise ValueError(f"{name} must be one of {self.grid.size:,} states")

    def _find_expected_parts(self) -> set[str]:
        if self.criterion.has_gain:
            return {"relative_values"}
        if self.criterion.requires_absorption:
            return {"start", "value_bounds"}
        return set(VALUE_PARTS) if self.blocks is None else {"figures", "blocks"}

    @staticmethod
    def identify(mdp: MDP, policy: Policy) -> dict[str, Any]:
        """The attributes that say what a certificate is about."""
        return {
            "model": mdp.name,
            "fingerprint": mdp.fingerprint,
            "minimise": mdp.minimise,
            "action_name": mdp.action_name,
            "criterion": mdp.criterion,
            "policy": policy,
            "mdp": mdp,
        }

    @property
    def kind(self) -> str:
        """``a certificate of discount 0.95``: what messages call it."""
        return f"a certificate of {self.criterion}" + ("" if self.blocks is None else " in blocks")

    @cached_property
    def content_hash(self) -> str | None:
        """Hash of the arrays of the model's file, by which the checker knows it.

        None for a model that is too large to be written out.
        """
        return None if self.mdp is None else self.mdp.content_hash

    def __getstate__(self) -> dict[str, Any]:
        # A staged model's functions do not travel between processes; its hash does.
        return {**self.__dict__, "mdp": None, "content_hash": self.content_hash}

    @property
    def sense(self) -> Sense:
        return sense_of(self.minimise)

    @property
    def grid(self) -> StateGrid:
        return self.policy.grid

    @property
    def actions(self) -> tuple:
        return self.policy.actions

    @property
    def loss(self) -> NDArray[np.float64]:
        """(grid) what is lost by starting in each state; ``losses`` has the enclosures."""
        return self.losses.value

    @property
    def local_loss(self) -> NDArray[np.float64]:
        """(grid) what each state's action loses; ``local_losses`` has the enclosures."""
        return self.local_losses.value

    @cached_property
    def worst_relative_loss(self) -> Interval | None:
        """The loss of the worst state over the size of its optimal value."""
        index = np.unravel_index(self.worst_state, self.grid.shape)  # of flat arrays, too
        value = Interval.from_error(float(self.optimal_value[index]), self.optimal_value_error)
        return Interval(*(float(array[index]) for array in self.losses.parts)).divide(value)

    def margin_error(self, bins: int | NDArray = 10) -> MarginError:
        """Policy error given the margin, in bins."""
        return count_errors_by_margin(
            self.margin, self.policy.table != self.optimal, bins, self.policy.name
        )

    def paragraphs(self) -> list[str]:
        """The summary without its title and not broken into lines, for pages of any width."""
        return write_paragraphs(self)

    def summary(self) -> str:
        """The findings in words, for a reader who knows the business and not the mathematics."""
        return write_summary(self)

    def __str__(self) -> str:
        """Title and cost: the first two paragraphs of the summary."""
        return "\n".join(self.summary().split("\n\n")[:2])

    def save(self, path: str | Path) -> None:
        """Write as JSON, for ``load`` and for ``python -m tessella.checker``.

        In blocks, without the table of the policy.
        """
        policy: dict[str, Any] = {"name": self.policy.name, "size": self.policy.size}
        if self.blocks is None:
            policy["table"] = self.policy.table
        document = {"format": FORMAT, "version": VERSION, "content": self.content_hash}
        document |= {
            "grid": self.grid.columns,
            "actions": actions_to_json(self.actions),
            "policy": policy,
        }
        document |= {name: getattr(self, name) for name in MODEL_FIELDS} | self._list_figures()
        converters = {Certificate: Certificate._convert_nested, **FILE_CONVERTERS}
        write_json(path, to_json_value(document, converters))

    def _list_figures(self) -> dict[str, Any]:
        """All fields of a file that are not about the model and the policy."""
        absent = {name for name in OPTIONAL_PARTS if getattr(self, name) is None}
        names = (item.name for item in fields(self))
        others = {*MODEL_FIELDS, "mdp", "policy", *absent}
        return {name: getattr(self, name) for name in names if name not in others}

    def _convert_nested(self) -> Any:
        """A certificate in another, of the same states, policy and start."""
        figures = self._list_figures()
        figures.pop("start", None)
        return to_json_value(figures, FILE_CONVERTERS)

    @staticmethod
    def load(path: str | Path) -> Certificate:
        """Read a saved certificate back. This does not check it; the checker does."""
        content = read_json(path, FILE_KIND)
        with wrap_read_errors(path, FILE_KIND):
            stated = content.get("format"), content.get("version")
            if stated != (FORMAT, VERSION):
                requirement = f"it must have format {FORMAT!r}, version {VERSION}"
                raise FileError(requirement, value=f"got {stated[0]!r}, version {stated[1]!r}")
            absent = dict.fromkeys((*OPTIONAL_PARTS, "mdp"))
            reader = RecordReader(read_policy(content, is_table_stated="blocks" not in content))
            if "constrained" in content:
                _complete_nested(content, absent)
            certificate = reader.read(Certificate, absent | content)
            hashed = content["content"] and read_field(content, "content", "text")
            certificate.__dict__["content_hash"] = hashed  # what was saved, as it was
            return certificate


def _complete_nested(content: dict[str, Any], absent: dict[Any, Any]) -> None:
    """Add to the certificates within a certificate what they share with it."""
    part = read_field(content, "constrained", "an object")
    names = (*MODEL_FIELDS, "policy", "start")
    shared = absent | {name: content[name] for name in names if name in content}
    constraints = read_field(part, "constraints", "a list")
    part["lagrangian"] = shared | read_field(part, "lagrangian", "an object")
    for constraint in constraints:
        constraint["certificate"] = shared | read_field(constraint, "certificate", "an object")
