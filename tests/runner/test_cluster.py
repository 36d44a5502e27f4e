"""How many workers a study has."""

from __future__ import annotations

import os

from tessella.runner.dispatch import WORKER_ENVIRONMENT, connect


def test_a_study_takes_the_cores_that_its_process_may_use(monkeypatch):
    monkeypatch.setattr("distributed.deploy.local.CPU_COUNT", 1)
    with connect() as client:
        assert len(client.nthreads()) == 1


def test_the_environment_of_workers_is_not_left_behind(monkeypatch):
    monkeypatch.setenv("OMP_NUM_THREADS", "3")
    monkeypatch.delenv("MKL_NUM_THREADS", raising=False)
    before = dict(os.environ)
    with connect(1) as client:
        (seen,) = client.run(lambda: dict(os.environ)).values()
    assert seen.items() >= WORKER_ENVIRONMENT.items()
    assert dict(os.environ) == before
