"""Spec, everything that decides the numbers of one run, and Record, the result of that run.

    key = SHA-256 of the canonical JSON of (problem, family, model, method, settings, edition,
                                            n, seed), and of the names of measures if it has some.

Two specs are the same run exactly when their keys are equal. Canonical JSON has sorted names, no
spaces, and only finite numbers, strings, lists and objects, so the key is the same on every
machine. Worker counts, paths and dates are not in it.

A method is given information of up to four kinds; a fair comparison shows all of them:

    labels           optimal actions of states, each exact;
    margins          best minus second-best action value of states, each exact;
    backups          full Bellman backups (a state's best action, by exact expectation) behind them;
    simulator_calls  sampled transitions.

A stored row has a checksum, the SHA-256 of all its other columns; it detects altered specs, figures
and policies. (It guards against accidents, not against someone who computes it again.)
"""

from __future__ import annotations

import hashlib
import io
import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field, fields
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tessella.errors import StudyError
from tessella.problems.problem import OBSERVATION_NOISE
from tessella.support.json_values import to_canonical_json

METRICS = ("policy_error", "value_gap", "mean_loss", "worst_loss")
REASON_MAX_CHARACTERS = 2000  # characters of a reason
ACTION_DTYPES = ("uint8", "uint16", "uint32", "uint64")


@dataclass(frozen=True, eq=False)
class Spec:
    """One run."""

    problem: str  # its name, or ``module:attribute``
    family: str  # the problem's family
    model: Mapping[str, Any]  # every setting of the problem, observation noise included
    method: str  # name in the registry of methods, or ``module:attribute``
    settings: Mapping[str, Any] = field(default_factory=dict)  # every hyper-parameter of the method
    edition: int = 1  # the method's edition; raised when its code changes what it computes
    n: int = 0  # labels, or updates, that the method may use; 0 where it uses none
    seed: int = 0  # which of the repetitions
    # Names of the measures of the policy, in addition to the figures of every record.
    measures: tuple[str, ...] = ()

    @cached_property
    def json(self) -> str:
        """The canonical JSON."""
        parts = asdict(self)
        if not self.measures:
            del parts["measures"]
        return to_canonical_json(parts)

    @cached_property
    def key(self) -> str:
        return hashlib.sha256(self.json.encode()).hexdigest()

    @property
    def dynamics(self) -> str:
        """What decides transitions and rewards: all of the model but the noise of observations."""
        settings = {name: value for name, value in self.model.items() if name != OBSERVATION_NOISE}
        return to_canonical_json([self.family, settings])

    @staticmethod
    def from_json(text: str) -> Spec:
        parts = json.loads(text)
        return Spec(**parts | {"measures": tuple(parts.get("measures", ()))})

    def generator(self, purpose: str) -> np.random.Generator:
        """Random numbers for ``purpose``, decided by n and seed alone.

        Method and problem have no part in it: all methods of one problem, n and seed see the
        same sample, variants of a problem see the same draws, and differences between
        either are paired.
        """
        return np.random.default_rng(self.entropy(purpose))

    def entropy(self, purpose: str, every_n: bool = False) -> int:
        """A 63-bit seed for ``purpose``; the same for every n if ``every_n``."""
        label = to_canonical_json([purpose, None if every_n else self.n, self.seed])
        return int.from_bytes(hashlib.sha256(label.encode()).digest()[:8], "big") >> 1

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Spec) and self.key == other.key

    def __hash__(self) -> int:
        return hash(self.key)

    def __str__(self) -> str:
        return f"{self.problem}, {self.method}, n={self.n}, seed={self.seed}"


@dataclass(frozen=True)
class InformationBudget:
    """The information that a method was given."""

    labels: int = 0
    margins: int = 0
    backups: int = 0
    simulator_calls: int = 0


@dataclass(frozen=True, eq=False)
class Record:
    """One finished, or failed, run."""

    spec: Spec
    policy_error: float = float("nan")  # share of states whose action differs from the optimal one
    value_gap: float = float("nan")  # mean local loss / (1 - discount)
    mean_loss: float = float("nan")  # of V* - V_pi over states, by evaluating the policy
    worst_loss: float = float("nan")  # the same
    size: int = 0  # how much the policy stores
    information: InformationBudget = field(default_factory=InformationBudget)
    seconds: float = float("nan")  # training time; for a batch that trained together, its share
    # (S,) action indices, in the narrowest unsigned type that holds them; empty for a failed run.
    actions: NDArray[np.integer] = field(default_factory=lambda: np.zeros(0, np.uint8))
    reason: str = ""  # why the run failed; empty when it did not
    measures: Mapping[str, float] = field(default_factory=dict)  # other numbers of the policy

    def __post_init__(self) -> None:
        object.__setattr__(self, "actions", _to_narrowest_dtype(self.actions))

    @property
    def failed(self) -> bool:
        return bool(self.reason)

    def row(self) -> dict[str, Any]:
        """The record as one row of a table.

        ``actions`` are the bytes of one ``dtype`` for each state in C order, lowest byte first.
        """
        return {
            "key": self.spec.key,
            "problem": self.spec.problem,
            "family": self.spec.family,
            "method": self.spec.method,
            "n": self.spec.n,
            "seed": self.spec.seed,
            **{name: _to_float(getattr(self, name)) for name in METRICS},
            "size": int(self.size),
            **{name: int(count) for name, count in asdict(self.information).items()},
            "seconds": _to_float(self.seconds),
            "dtype": self.actions.dtype.name,
            "actions": self.actions.astype(_stored_dtype(self.actions.dtype.name)).tobytes(),
            "reason": self.reason,
            "spec": self.spec.json,
            "measures": to_canonical_json(dict(self.measures)) if self.measures else "",
        }

    @staticmethod
    def from_row(row: Mapping[str, Any]) -> Record:
        def number(name: str) -> float:
            # SQLite stores a missing number as NULL.
            return float("nan") if row[name] is None else float(row[name])

        return Record(
            spec=Spec.from_json(row["spec"]),
            **{name: number(name) for name in METRICS},
            size=int(row["size"]),
            information=InformationBudget(*(row[part.name] for part in fields(InformationBudget))),
            seconds=number("seconds"),
            actions=np.frombuffer(row["actions"], _stored_dtype(row["dtype"])),
            reason=row["reason"],
            measures=json.loads(row["measures"] or "{}"),
        )


def format_exception(error: BaseException) -> str:
    """An error of any code, as text that can be stored and shown."""
    try:
        text = str(error)
    except Exception:  # printing an error may fail as well
        text = "(it cannot be put in words)"
    printable = text.encode("utf-8", "backslashreplace").decode()
    if len(printable) > REASON_MAX_CHARACTERS:
        printable = printable[:REASON_MAX_CHARACTERS] + "..."
    return f"{type(error).__name__}: {printable}"


def with_checksum(row: Mapping[str, Any]) -> dict[str, Any]:
    return {**row, "checksum": _checksum(row)}


def verify(row: Mapping[str, Any]) -> Record:
    """The record of a row with a checksum; an altered or invalid one is named and rejected."""
    missing = [column for column in (*RECORD_COLUMNS, "checksum") if column not in row]
    if missing:
        raise StudyError(f"{describe_row(row)} has no {', '.join(missing)}")
    if row["checksum"] != _checksum(row):
        reason = "was altered after it was stored: its checksum differs"
        raise StudyError(f"{describe_row(row)} {reason}")
    try:
        if hashlib.sha256(row["spec"].encode()).hexdigest() != row["key"]:
            raise ValueError("its key is that of another spec")
        return Record.from_row(row)
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise StudyError(f"{describe_row(row)} cannot be read: {error}") from error


def describe_row(row: Mapping[str, Any]) -> str:
    """How messages name a row, also one that lacks columns."""
    problem, method, n, seed = map(row.get, ("problem", "method", "n", "seed"))
    key = str(row.get("key"))[:12]
    return f"the record {key} ({problem}, {method}, n={n}, seed={seed})"


def _checksum(row: Mapping[str, Any]) -> str:
    """SHA-256 of the values of a row; NaN and NULL count as the same missing number."""
    values = [row[column] for column in RECORD_COLUMNS]
    hashed = [hashlib.sha256(v).hexdigest() if isinstance(v, bytes) else v for v in values]
    known = [None if value != value else value for value in hashed]  # only NaN differs from itself
    return hashlib.sha256(json.dumps(known, default=str).encode()).hexdigest()


def _to_float(value: float) -> float:
    return float(value) + 0.0  # SQLite has no -0


def _to_narrowest_dtype(actions: NDArray) -> NDArray[np.unsignedinteger]:
    """The same indices in the narrowest type."""
    array = np.asarray(actions)
    if array.size and (array.dtype.kind not in "iu" or array.min() < 0):
        raise StudyError("a record's actions must be indices, whole and not negative")
    return array.astype(np.min_scalar_type(int(array.max(initial=0))))


def _stored_dtype(name: str) -> np.dtype:
    if name not in ACTION_DTYPES:
        raise ValueError(f"its actions are of the type {name!r}")
    return np.dtype(name).newbyteorder("<")


EMPTY_ROW = Record(Spec("", "", {}, "")).row()
RECORD_COLUMNS = tuple(EMPTY_ROW)  # of a row, without its checksum


def records_to_parquet(records: Iterable[Record]) -> bytes:
    """All records, failures too."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    file = io.BytesIO()
    table = pa.Table.from_pylist([with_checksum(record.row()) for record in records])
    pq.write_table(table, file, compression="zstd")
    return file.getvalue()


def read_parquet(path: Path) -> tuple[Record, ...]:
    """The records of a ``records.parquet``; one that was altered is named and rejected."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        return tuple(verify(row) for row in pq.read_table(path).to_pylist())
    except (OSError, StudyError, pa.ArrowException) as error:
        raise StudyError(f"{path} cannot be read as a study's records: {error}") from error
