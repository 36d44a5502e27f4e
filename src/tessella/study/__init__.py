"""The paper's study, and others like it: Spec -> run -> Record -> store -> table, figures, report.

The verbs have modules of their own name: ``tessella.study.run.run``, ``...reproduce.reproduce``,
``...conclusions.conclusions``. Names load when first used: a worker process needs few of them.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

_HOME = {
    "cluster": ("connect",),
    "conclusions": ("Finding",),
    "folder": ("StudyError",),
    "plan": ("Batch", "Study", "batches"),
    "record": ("Record", "Told"),
    "reproduce": ("Cluster", "Finished", "Interrupted"),
    "results": ("Results",),
    "run": ("Outcome", "run_batch"),
    "spec": ("Spec",),
    "store": ("Store",),
}
_WHERE = {name: home for home, names in _HOME.items() for name in names}

__all__ = sorted(_WHERE)  # pyright: ignore[reportUnsupportedDunderAll]

if TYPE_CHECKING:
    from tessella.study.cluster import connect
    from tessella.study.conclusions import Finding
    from tessella.study.folder import StudyError
    from tessella.study.plan import Batch, Study, batches
    from tessella.study.record import Record, Told
    from tessella.study.reproduce import Cluster, Finished, Interrupted
    from tessella.study.results import Results
    from tessella.study.run import Outcome, run_batch
    from tessella.study.spec import Spec
    from tessella.study.store import Store


def __getattr__(name: str) -> Any:
    if name not in _WHERE:
        raise AttributeError(f"module 'tessella.study' has no attribute {name!r}")
    return getattr(import_module(f"tessella.study.{_WHERE[name]}"), name)
