"""The result of a run, for an optimum and for a policy alike: a value, and how good it is.

A long run can be interrupted: a ``Checkpoint`` keeps the best point so far in a file. Any point is
a start, so the value is all that a run needs to continue; its history goes with it. Files are
written atomically (``tessella.files``): a process that is killed at any moment leaves the last file
or the one before.
"""

from __future__ import annotations

import json
import time
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tessella.errors import ArgumentError, FileError, NotConverged, counted, is_number
from tessella.files import atomic_write, wrap_read_errors
from tessella.mdp.model import MDP
from tessella.mdp.stages.events import average_unit
from tessella.numerics import host_fields, with_host_arrays
from tessella.rounding import EPS, format_with_error_bound, round_down, round_up

CHECKPOINT_FORMAT = "tessella checkpoint 1"


@dataclass(frozen=True, eq=False)
class History:
    """The progress of a run; one entry for each sweep."""

    bound: NDArray[np.float64]  # (n,) bound on the error of the value
    changed: NDArray[np.int64]  # (n,) states whose greedy action changed
    seconds: NDArray[np.float64]  # (n,) since the start; evenly spaced within a compiled batch

    def __len__(self) -> int:
        return len(self.bound)

    def followed_by(self, other: History) -> History:
        """This history, continued by that of a later run."""
        seconds_before = self.seconds[-1] if len(self) else 0.0
        return History(
            np.concatenate([self.bound, other.bound]),
            np.concatenate([self.changed, other.changed]),
            np.concatenate([self.seconds, seconds_before + other.seconds]),
        )


class Status(Enum):
    """How a run ended; the value of a member is the template of its sentence."""

    CONVERGED = "bound {bound} is within the tolerance {target}"
    SOLVED_BY_PERIODS = "every period was solved once; rounding leaves {bound}"
    POLICY_PROVEN = "every action is decided; values are off by up to {bound}"
    TIED_WITHIN_ROUNDING = (
        "{decided} of {states} actions are decided, and the others tied within the {tolerance} "
        "that rounding leaves; values are off by up to {bound}"
    )
    NOTHING_DECIDED = (
        "nothing could be decided: rounding leaves a tolerance of {tolerance}, more than any "
        "margin; values are off by up to {bound}"
    )
    SOLVED_DIRECTLY = "float64 leaves a bound of {bound}"
    TOO_WIDE = "float64 leaves a bound of {bound}, too wide to be of use"
    ROUNDING_LIMIT = (
        "float64 cannot certify tol={target} for this model: rounding leaves a bound of {bound}; "
        "ask for more than that, or for tol=None"
    )
    STOPPED = "stopped by the callback after {sweeps} at bound {bound}"
    STOPPED_EARLY = (
        "stopped by the callback after {count} of {periods} periods, counted from the last; "
        "earlier times have the value 0"
    )
    PERIOD_LIMIT = (
        "{limit} after {count} of {periods} periods, counted from the last; "
        "earlier times have the value 0"
    )
    NO_PROGRESS = "no further progress after {sweeps}, at bound {bound}, short of {target}"
    LIMIT = "{limit} at bound {bound}, short of {target}"
    BROKE_DOWN = "the run broke down after {sweeps}: its numbers are not finite"

    @property
    def is_converged(self) -> bool:
        return self in (
            Status.CONVERGED,
            Status.SOLVED_BY_PERIODS,
            Status.POLICY_PROVEN,
            Status.TIED_WITHIN_ROUNDING,
            Status.SOLVED_DIRECTLY,
        )

    @property
    def is_stopped(self) -> bool:
        return self in (Status.STOPPED, Status.STOPPED_EARLY)


def find_status(
    bound: float, target: float, *, is_at_floor: bool, is_stopped: bool, is_at_limit: bool = True
) -> Status:
    """How a run with this bound ended; ``is_at_floor`` where rounding leaves no smaller one."""
    if np.isnan(bound):
        return Status.BROKE_DOWN
    if bound <= target:
        return Status.CONVERGED
    if is_at_floor:
        return Status.ROUNDING_LIMIT
    if is_stopped:
        return Status.STOPPED
    return Status.LIMIT if is_at_limit else Status.NO_PROGRESS


class ValueAccuracy(NamedTuple):
    """How well values and their comparisons are known."""

    error: float  # on |V - V*|, or on |h - h*|, both 0 in the first state; inf: nothing is known
    # Action values nearer than this are not distinguished: for all states, or (slices).
    tie_tolerance: float | NDArray[np.float64]


@with_host_arrays("value")
@dataclass(frozen=True, eq=False)
class Result:
    """A value, enclosed.

    Attributes:
        value: (grid) the value that is sought lies within ``error_bound`` of it, in every state.
        error_bound: rounding included.
        gain: reward per period, where that is the criterion. Then ``error_bound`` is that of the
            gain, and the values are relative: 0 in the first state.
        converged: whether the tolerance was met; ``reason`` says why the iteration ended.
        table: (grid) the policy, where elimination computed it: rounded values do not show it.
    """

    value: NDArray[np.float64]
    error_bound: float
    converged: bool
    reason: str
    history: History
    gain: float | None = field(default=None, kw_only=True)
    table: NDArray[np.int32] | None = field(default=None, kw_only=True)

    def get_raw(self, name: str) -> Any:
        """An array as it is held: NumPy's, or one on the device."""
        return vars(self)[name]

    def part(self, name: str, index: Any) -> NDArray:
        """Part of an array, without copying the rest from the device.

        ``part("value", np.s_[:9])`` is ``value[:9]``.
        """
        return np.asarray(self.get_raw(name)[index])

    def __getstate__(self) -> dict[str, Any]:
        return host_fields(self)

    @property
    def cost(self) -> NDArray[np.float64] | float:
        """(grid) the value as a cost; of an average the cost per period."""
        return -self.value if self.gain is None else -self.gain

    @property
    def sweeps(self) -> int:
        return len(self.history)

    @property
    def status_text(self) -> str:
        """``converged``, or why not."""
        return "converged" if self.converged else f"not converged ({self.reason})"


def make_run_result(
    status: Status,
    value: Any,
    bound: float,
    target: float | None,
    history: History,
    *,
    may_raise: bool,
    gain: float | None = None,
    table: NDArray[np.int32] | None = None,
    **figures: object,
) -> Result:
    """The result of a run with this status; raises NotConverged for a failure if ``may_raise``.

    ``target`` is the bound that was to be reached, and ``figures`` are further values in the
    sentence of the status. A run that broke down has no result.
    """
    reason = status.value.format(
        bound=round_up(bound),
        target="none" if target is None else f"{target:.3g}",
        count=len(history),
        sweeps=counted(len(history), "sweep"),
        **figures,
    )
    if status is Status.BROKE_DOWN:
        raise NotConverged(reason)
    result = Result(value, bound, status.is_converged, reason, history, gain=gain, table=table)
    if may_raise and not (status.is_converged or status.is_stopped):
        raise NotConverged(reason, result)
    return result


def format_average(mdp: MDP, result: Result) -> str:
    """``32.77 per unit of time, off by at most 4e-12``: a gain per period, in its model's terms.

    A gain that is not known well is written as the interval that contains it.
    """
    assert result.gain is not None
    times, unit = average_unit(mdp.clock)
    average = mdp.sense.display(times) * result.gain + 0.0  # no -0
    error = times * result.error_bound * (1 + EPS) + EPS * abs(average)
    if not result.converged:
        return f"between {round_down(average - error, 8)} and {round_up(average + error, 8)} {unit}"
    text, off = format_with_error_bound(average, error)
    return f"{text} {unit}, off by at most {off}"


@dataclass(frozen=True)
class Checkpoint:
    """The file that holds the state of a running solve.

    Args:
        path: of the file, which ends in ``.npz``. A run continues from a file of the same model.
        every: seconds after which it is written again; an iteration is never cut.

    Example:
        >>> checkpoint = ts.Checkpoint("run.npz", every=60)   # seconds
        >>> solution = ts.solve(ts.benchmark("QUE-Lin"), checkpoint=checkpoint)
    """

    path: str | Path
    every: float = 60.0

    def __post_init__(self) -> None:
        if not isinstance(self.path, str | Path) or Path(self.path).suffix != ".npz":
            raise ArgumentError("a checkpoint ends in .npz", value=f"got {str(self.path)!r}")
        if not is_number(self.every) or not self.every >= 0:
            requirement = "checkpoints are written 0 or more seconds apart"
            raise ArgumentError(requirement, value=f"got {self.every!r}")


class CheckpointWriter:
    """Loads and writes the checkpoint file of one run."""

    def __init__(self, checkpoint: Checkpoint, mdp: MDP) -> None:
        self.path = Path(checkpoint.path)
        self.interval_seconds = checkpoint.every
        self.fingerprint = mdp.fingerprint
        self.shape = mdp.grid.shape
        self.iterations_per_check = 1  # between two readings of the clock
        self._last_write = time.monotonic()

    def load_run(self) -> tuple[NDArray[np.float64], History] | None:
        """(value, history) of the file; None where there is none. Rejects that of another model."""
        if not self.path.exists():
            return None
        with (
            wrap_read_errors(self.path, "a checkpoint"),
            np.load(self.path, allow_pickle=False) as file,
        ):
            metadata = json.loads(str(file["about"]))
            if (
                metadata.get("format") != CHECKPOINT_FORMAT
                or metadata.get("fingerprint") != self.fingerprint
            ):
                raise FileError(
                    f"{self.path} is the checkpoint of another model",
                    value=f"its model is {str(metadata.get('fingerprint'))[:12]}, "
                    f"this one is {self.fingerprint[:12]}",
                )
            history = History(*(file[name] for name in ("bound", "changed", "seconds")))
            value = file["value"].reshape(self.shape)
            if value.dtype != np.float64 or not np.isfinite(value).all():
                raise FileError("the value of a checkpoint must be finite")
            return value, history

    def check_clock(self) -> bool:
        """Whether it is time to write; also sets how many iterations come before the next check."""
        elapsed = time.monotonic() - self._last_write
        self.iterations_per_check = (
            min(2 * self.iterations_per_check, 1 << 20)
            if elapsed < self.interval_seconds / 2
            else 1
        )
        return elapsed >= self.interval_seconds

    def write(self, value: NDArray[np.float64], history: History) -> None:
        metadata = json.dumps({"format": CHECKPOINT_FORMAT, "fingerprint": self.fingerprint})
        with atomic_write(self.path) as part:
            np.savez(part, about=np.asarray(metadata), value=value, **vars(history))
        self._last_write = time.monotonic()
