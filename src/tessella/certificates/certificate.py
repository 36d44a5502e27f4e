"""What a policy loses against the optimum, with every figure enclosed: one ``Certificate``.

What it states besides the loss, and what proves it, depends on the criterion and on the size.

- Values that are sums of rewards, discounted or over a horizon: bounds on the errors of both
  values, from which all else follows, every single decision included (``certify``).
- An average: relative values h that enclose both gains (``certify_undiscounted``). It says nothing
  of single decisions: how far h is from the exact relative values depends on how long it takes to
  come back to a state, and the document does not bound that.
- A total: vectors above and below both values (``certify_undiscounted``).
- A very large model: the figures that are one number each (``certify_blocks``).

In a file, every number is written so that it reads back to the same float; grids are nested lists,
an enclosed number is ``[value, lower, upper]``. JSON has no infinity: the margin of a state with
only one feasible action is null.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, is_dataclass
from functools import cached_property
from pathlib import Path
from types import MappingProxyType, NoneType, UnionType
from typing import Any, ClassVar, get_args, get_type_hints

import numpy as np
from numpy.typing import NDArray

from tessella.certificates.decisions import MarginError, count_errors_by_margin
from tessella.certificates.interval import Interval, IntervalArray
from tessella.certificates.loss_bounds import Decomposition, LossBounds
from tessella.certificates.summary import (
    wrap,
    write_average_paragraphs,
    write_block_paragraphs,
    write_summary,
    write_total_paragraphs,
    write_value_paragraphs,
)
from tessella.criteria.criterion import Criterion
from tessella.criteria.discounted import Discounted
from tessella.criteria.finite_horizon import FiniteHorizon
from tessella.errors import FileError
from tessella.files import (
    KINDS,
    NATURAL_NUMBER,
    NOT_NEGATIVE,
    is_finite,
    read_errors,
    read_field,
    read_json,
    write_json,
)
from tessella.grid import StateGrid
from tessella.mdp.actions import actions_from_json, actions_to_json, normalise_actions
from tessella.mdp.model import MDP
from tessella.mdp.policy import Policy, check_actions, read_grid
from tessella.support.json_values import to_json_value
from tessella.support.sense import Sense, sense_of

FILE_KIND = "a certificate"
PLAIN_KINDS = {str: "text", bool: "true or false", int: NATURAL_NUMBER, float: NOT_NEGATIVE}


@dataclass(frozen=True, eq=False, kw_only=True)
class Certificate(ABC):
    """What a policy loses, and how sure that is, of any criterion and size. Made by ``certify``.

    Every certificate has the attributes below. What else it states depends on the criterion: where
    values are sums of rewards see ``ValueFigures`` and ``ValueCertificate`` (of a model that is
    certified in blocks ``BlockCertificate``), of an average ``AverageCertificate``, of a total
    ``TotalCertificate``. A figure that only another kind of certificate states is None.

    Attributes:
        model, fingerprint, action_name: the model.
        minimise: whether the model is stated in costs; then the summary speaks of them.
        policy: the policy.
        mean_loss: what the policy loses from the start; of an average, in each period.
        worst_loss: from the worst state.
        relative_loss: ``mean_loss`` over the size of the optimal value; None where that may be 0.
        mdp: the model itself; None for a certificate from a file or another process.
        FORMAT: name and version of its document.
        FILE_NAMES: names in the document of the attributes that have another one there.
    """

    FORMAT: ClassVar[tuple[str, int]]
    FILE_NAMES: ClassVar[dict[str, str]] = {}

    model: str
    fingerprint: str
    minimise: bool
    action_name: str
    policy: Policy
    mean_loss: Interval
    worst_loss: Interval
    relative_loss: Interval | None
    mdp: MDP | None = field(default=None, repr=False)

    def __getattr__(self, name: str) -> Any:
        """None for what only another kind of certificate has."""
        if any(name in kind.__dataclass_fields__ for kind in CERTIFICATE_CLASSES):
            return None
        raise AttributeError(f"a certificate has no attribute {name!r}")

    @staticmethod
    def identify(mdp: MDP, policy: Policy) -> dict[str, Any]:
        """The attributes that say what a certificate is about."""
        return {
            "model": mdp.name,
            "fingerprint": mdp.fingerprint,
            "minimise": mdp.minimise,
            "action_name": mdp.action_name,
            "policy": policy,
            "mdp": mdp,
        }

    @cached_property
    def content(self) -> str | None:
        """Hash of the arrays of the model's file, by which the checker knows it.

        None for a model that is too large to be written out.
        """
        return None if self.mdp is None else self.mdp.content

    def __getstate__(self) -> dict[str, Any]:
        # A staged model's functions do not travel between processes; its hash does.
        return {**self.__dict__, "mdp": None, "content": self.content}

    @property
    def sense(self) -> Sense:
        return sense_of(self.minimise)

    @property
    def grid(self) -> StateGrid:
        return self.policy.grid

    @property
    def actions(self) -> tuple:
        return self.policy.actions

    @abstractmethod
    def paragraphs(self) -> list[str]:
        """The summary without its title and not broken into lines, for pages of any width."""

    def summary(self) -> str:
        """The findings in words, for a reader who knows the business and not the mathematics."""
        return write_summary(self)

    def __str__(self) -> str:
        """Title and cost: the first two paragraphs of the summary."""
        return "\n".join(self.summary().split("\n\n")[:2])

    def save(self, path: str | Path) -> None:
        """Write as JSON, for ``load`` and for ``python -m tessella.checker``."""
        name, version = self.FORMAT
        document = {"format": name, "version": version} | self._describe_source()
        document |= {
            self.FILE_NAMES.get(item.name, item.name): getattr(self, item.name)
            for item in fields(self)
            if item.name not in ("mdp", "policy")
        }
        write_json(path, to_json_value(document, FILE_CONVERTERS))

    def _describe_source(self) -> dict[str, Any]:
        """What a file states of the model and the policy, besides the other attributes."""
        return {"content": self.content, "policy": _policy_to_json(self.policy)}

    @staticmethod
    def load(path: str | Path) -> Certificate:
        """Read a saved certificate back. This does not check it; the checker does."""
        content = read_json(path, FILE_KIND)
        with read_errors(path, FILE_KIND):
            stated = content.get("format"), content.get("version")
            named = [kind for kind in LOADABLE_CLASSES if kind.FORMAT[0] == stated[0]]
            kind = named[0] if named else ValueCertificate
            if stated != kind.FORMAT:
                name, version = kind.FORMAT
                requirement = f"it must have format {name!r}, version {version}"
                raise FileError(requirement, value=f"got {stated[0]!r}, version {stated[1]!r}")
            policy = _policy_from_json(read_field(content, "policy", "an object"))
            certificate = _Reader(policy).read_all(kind, content | {"mdp": None}, kind.FILE_NAMES)
            hashed = content["content"] and read_field(content, "content", "text")
            certificate.__dict__["content"] = hashed  # what was saved, as it was
            return certificate


@dataclass(frozen=True, eq=False, kw_only=True)
class ValueFigures(Certificate):
    """The figures that are one number each, of values that are sums of rewards.

    Attributes:
        optimal_value_error, policy_value_error: how far either value may be off, in any state.
        tolerance: an action within this of the best is no costly error.
        policy_error: share of states whose action differs from the optimal policy's.
        costly_error: share of states whose action is worse than the best by more than the
            tolerance (the set-valued policy error).
        value_gap: the paper's: mean local loss over all states / (1 - discount).
        optimal_mean, policy_mean: J, the value of the optimum and of the policy from the start.
    """

    optimal_value_error: float
    policy_value_error: float
    tolerance: float
    policy_error: Interval
    costly_error: Interval
    value_gap: Interval
    optimal_mean: Interval
    policy_mean: Interval


@dataclass(frozen=True, eq=False, kw_only=True)
class ValueCertificate(ValueFigures):
    """What a policy loses and where, of values that are sums of rewards.

    Attributes:
        discount: of the model.
        periods: of its horizon; None where it has none.
        optimal: (grid) action indices of the optimal policy.
        start: (grid) distribution of the first state.
        optimal_value: (grid) V*, within ``optimal_value_error`` everywhere.
        policy_value: (grid) V of the policy, within ``policy_value_error`` everywhere.
        margin: (grid) best minus second-best action value, within ``margin_slack``.
        local_losses: (grid) what the action of each state loses if all else is optimal.
        losses: (grid) V* - V of the policy: what is lost by starting in each state.
        occupancy: (grid) discounted share of time, off by at most ``occupancy_error`` in all.
        decomposition: where the mean loss comes from.
        bounds: what the paper's bounds say about the mean loss.
    """

    FORMAT: ClassVar[tuple[str, int]] = "tessella certificate", 4

    discount: float
    periods: int | None
    optimal: NDArray[np.int32] = field(repr=False)
    start: NDArray[np.float64] = field(repr=False)
    optimal_value: NDArray[np.float64] = field(repr=False)
    policy_value: NDArray[np.float64] = field(repr=False)
    margin: NDArray[np.float64] = field(repr=False)
    margin_slack: float
    local_losses: IntervalArray = field(repr=False)
    losses: IntervalArray = field(repr=False)
    occupancy: NDArray[np.float64] = field(repr=False)
    occupancy_error: float
    decomposition: Decomposition = field(repr=False)
    bounds: LossBounds = field(repr=False)

    def __post_init__(self) -> None:
        example = self.bounds.localisation.example
        if example is not None and example >= self.policy.grid.size:
            raise ValueError(
                f"localisation.example must be one of {self.policy.grid.size:,} states"
            )

    @property
    def criterion(self) -> Criterion:
        """What a value means."""
        if self.periods is None:
            return Discounted(self.discount)
        return FiniteHorizon(self.periods, self.discount)

    @property
    def loss(self) -> NDArray[np.float64]:
        """(grid) what is lost by starting in each state; ``losses`` has the enclosures."""
        return self.losses.value

    @property
    def local_loss(self) -> NDArray[np.float64]:
        """(grid) what each state's action loses; ``local_losses`` has the enclosures."""
        return self.local_losses.value

    @cached_property
    def worst_state(self) -> int:
        """Flat index of the state with the largest loss."""
        return int(self.loss.argmax())

    @cached_property
    def worst_relative_loss(self) -> Interval | None:
        """The loss of the worst state over the size of its optimal value."""
        index = np.unravel_index(self.worst_state, self.grid.shape)
        value = Interval.from_error(float(self.optimal_value[index]), self.optimal_value_error)
        return Interval(*(float(array[index]) for array in self.losses.parts)).divide(value)

    def margin_error(self, bins: int | NDArray = 10) -> MarginError:
        """Policy error given the margin, in bins."""
        return count_errors_by_margin(
            self.margin, self.policy.table != self.optimal, bins, self.policy.name
        )

    def paragraphs(self) -> list[str]:
        return write_value_paragraphs(self)


@dataclass(frozen=True, eq=False, kw_only=True)
class AverageCertificate(Certificate):
    """What a policy loses per period against the best average, from every state alike.

    Attributes:
        optimal_value, policy_value: (grid) relative values, of the optimum and of the policy, from
            which the gains are proven; their own error is not stated.
        optimal_value_rest, policy_value_rest: (grid) what is added to them: the digits that a float
            does not hold, where chains hardly leave a set of states; else 0.
        optimal_gain, policy_gain: reward per period, from every state.
    """

    FORMAT: ClassVar[tuple[str, int]] = "tessella certificate of an average", 2
    FILE_NAMES: ClassVar[dict[str, str]] = {"mean_loss": "loss", "worst_loss": "loss"}

    optimal_value: NDArray[np.float64] = field(repr=False)
    optimal_value_rest: NDArray[np.float64] = field(repr=False)
    policy_value: NDArray[np.float64] = field(repr=False)
    policy_value_rest: NDArray[np.float64] = field(repr=False)
    optimal_gain: Interval
    policy_gain: Interval

    def paragraphs(self) -> list[str]:
        return write_average_paragraphs(self)


@dataclass(frozen=True, eq=False, kw_only=True)
class TotalCertificate(Certificate):
    """What a policy loses against the best total reward until the end.

    Attributes:
        start: (grid) distribution of the first state.
        optimal_lower, optimal_upper: (grid) V* lies between them.
        policy_lower, policy_upper: (grid) V_pi lies between them.
        optimal_mean, policy_mean: both values, expected over the start.
    """

    FORMAT: ClassVar[tuple[str, int]] = "tessella certificate of a total", 1

    start: NDArray[np.float64] = field(repr=False)
    optimal_lower: NDArray[np.float64] = field(repr=False)
    optimal_upper: NDArray[np.float64] = field(repr=False)
    policy_lower: NDArray[np.float64] = field(repr=False)
    policy_upper: NDArray[np.float64] = field(repr=False)
    optimal_mean: Interval
    policy_mean: Interval

    def paragraphs(self) -> list[str]:
        return write_total_paragraphs(self)


@dataclass(frozen=True, eq=False, kw_only=True)
class BlockCertificate(ValueFigures):
    """The figures of a very large model that are one number each; the checker reads none of them.

    Attributes:
        worst_state: flat index of the state with the largest loss.
        blocks: how many blocks the grid was divided into.
    """

    FORMAT: ClassVar[tuple[str, int]] = "tessella certificate summary", 2

    worst_state: int
    blocks: int

    def paragraphs(self) -> list[str]:
        return write_block_paragraphs(self)

    def __str__(self) -> str:
        return wrap(self.paragraphs()[0])

    def _describe_source(self) -> dict[str, Any]:
        return {"states": self.grid.size, "policy": self.policy.name}


LOADABLE_CLASSES = (ValueCertificate, AverageCertificate, TotalCertificate)
CERTIFICATE_CLASSES = (*LOADABLE_CLASSES, BlockCertificate)


def _policy_to_json(policy: Policy) -> dict[str, Any]:
    grid = policy.grid
    return {
        "name": policy.name,
        "size": policy.size,
        "actions": actions_to_json(policy.actions),
        "grid": dict(zip(grid.axes, grid.values, strict=True)),
        "table": policy.table,
    }


def _require_finite(figure: float) -> float:
    if not np.isfinite(figure):
        raise FileError("every figure of a saved certificate is finite", value=f"got {figure}")
    return float(figure)


def _interval_to_json(interval: Interval) -> list[float]:
    return [*map(_require_finite, (float(interval), interval.lower, interval.upper))]


FILE_CONVERTERS = {Interval: _interval_to_json, float: _require_finite}


def _policy_from_json(content: dict[str, Any]) -> Policy:
    actions = actions_from_json(read_field(content, "actions", "a list"))
    return Policy.from_table(
        read_grid(content, "grid"),
        normalise_actions(actions, "action"),
        np.array(content["table"]),
        size=read_field(content, "size", NATURAL_NUMBER),
        name=read_field(content, "name", "text"),
    )


@dataclass(frozen=True, eq=False)
class _Reader:
    """Fields of a certificate of ``policy``, each as its annotation asks for."""

    policy: Policy

    def read_all(
        self, kind: type, content: dict[str, Any], names: Mapping[str, str] = MappingProxyType({})
    ) -> Any:
        hints = get_type_hints(kind)
        named = {f.name: names.get(f.name, f.name) for f in fields(kind)}
        return kind(**{n: self._read_field(hints[n], content, name) for n, name in named.items()})

    def _read_field(self, hint: Any, content: dict[str, Any], name: str) -> Any:
        kinds = get_args(hint) if isinstance(hint, UnionType) else (hint,)
        if NoneType in kinds and name in content and content[name] is None:
            return None
        if content.get(name) is None:
            raise FileError(f"the field {name!r} is needed", value="it is missing")
        return self._read_value(kinds[0], content, name)

    def _read_value(self, kind: Any, content: dict[str, Any], name: str) -> Any:
        if kind in PLAIN_KINDS:
            return kind(read_field(content, name, PLAIN_KINDS[kind]))
        if kind is Policy:
            return self.policy
        if kind is Interval:
            return _interval_from_json(content[name], name)
        if kind is IntervalArray:
            return self._read_interval_array(read_field(content, name, "an object"), name)
        if is_dataclass(kind):
            return self.read_all(kind, read_field(content, name, "an object"))  # type: ignore[arg-type]
        array = self._read_array(content[name], name)
        if kind == NDArray[np.int32]:
            return check_actions(array, self.policy.grid, self.policy.actions)
        return array

    def _read_interval_array(self, parts: dict[str, Any], name: str) -> IntervalArray:
        intervals = IntervalArray(
            *(self._read_array(parts[p], name) for p in ("value", "lower", "upper"))
        )
        if not ((intervals.lower <= intervals.value) & (intervals.value <= intervals.upper)).all():
            raise FileError(f"every value of {name!r} must lie between its ends")
        return intervals

    def _read_array(self, value: Any, name: str) -> np.ndarray:
        """Numbers by state, by action or by pairs of them; null is infinite."""
        array = np.asarray(value, dtype=object)
        n_actions = len(self.policy.actions)
        by_action = {"region": (n_actions,), "pair": (n_actions,) * 2, "face": (n_actions,) * 2}
        shape = by_action.get(name, self.policy.grid.shape)
        kind = "a number or null" if name == "margin" else "a number"
        if array.shape != shape or not all(map(KINDS[kind], array.ravel())):
            raise FileError(f"every entry of {name!r} must be {kind}, in shape {shape}")
        return np.where(array == None, np.inf, array).astype(float)  # noqa: E711 (elementwise)


def _interval_from_json(value: Any, name: str) -> Interval:
    if not (isinstance(value, list) and len(value) == 3 and all(map(is_finite, value))):
        requirement = f"{name!r} must be [value, lower, upper]"
        raise FileError(requirement, value=f"got {value!r:.60}")
    return Interval(*value)
