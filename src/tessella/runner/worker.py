"""What a worker process of the embedded cluster does when it starts."""

from __future__ import annotations

import signal


def dask_setup(worker: object) -> None:
    """Leave interrupts to the study: a terminal sends them to every process."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
