"""The connection to a scheduler that requires TLS uses dask's own settings."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Iterator

import dask
import pytest

from tessella.errors import StudyError
from tessella.runner.dispatch import connect

pytestmark = pytest.mark.skipif(shutil.which("openssl") is None, reason="needs openssl")

ASKED = ("--problems", "INV-Mix", "--sizes", "100", "--seeds", "2", "--methods", "toy:quick")


@pytest.fixture(scope="module")
def keys(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """A certificate that is its own authority, and its key."""
    folder = tmp_path_factory.mktemp("keys")
    made = {"key": folder / "key.pem", "cert": folder / "cert.pem"}
    words = (
        "req",
        "-x509",
        "-newkey",
        "rsa:2048",
        "-nodes",
        "-days",
        "2",
        "-subj",
        "/CN=localhost",
    )
    files = ("-keyout", str(made["key"]), "-out", str(made["cert"]))
    subprocess.run(["openssl", *words, *files], check=True, capture_output=True)
    return {name: str(path) for name, path in made.items()}


@pytest.fixture(scope="module")
def scheduler(shells, keys, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a scheduler with a worker, both of which speak TLS and nothing else."""
    folder, shell = tmp_path_factory.mktemp("scheduler"), shells()
    where = folder / "scheduler.json"
    secure = ("--tls-ca-file", keys["cert"], "--tls-cert", keys["cert"], "--tls-key", keys["key"])
    file = ("--scheduler-file", str(where), "--protocol", "tls", "--no-dashboard")
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    main = "distributed.cli.dask_scheduler"
    process = shell.start(*file, "--port", "0", *secure, main=main, **quiet)
    shell.until(where.exists, process)
    words = (*file, "--no-nanny", "--nthreads", "1", "--local-directory", str(folder), *secure)
    shell.start(*words, main="distributed.cli.dask_worker", **quiet)
    yield json.loads(where.read_text())["address"]
    shell.close()


@pytest.fixture
def impatient() -> Iterator[None]:
    with dask.config.set({"distributed.comm.timeouts.connect": "2s"}):
        yield


def test_a_study_runs_on_a_scheduler_that_asks_for_tls(
    shell, scheduler, keys, tmp_path, monkeypatch
):
    assert scheduler.startswith("tls://")
    for name, path in {"CA_FILE": keys["cert"], "CLIENT__CERT": keys["cert"]}.items():
        monkeypatch.setenv(f"DASK_DISTRIBUTED__COMM__TLS__{name}", path)
    monkeypatch.setenv("DASK_DISTRIBUTED__COMM__TLS__CLIENT__KEY", keys["key"])
    out = tmp_path / "study"
    status, output = shell.finish(shell.paper(out, *ASKED, "--scheduler", scheduler))
    assert status == 0, output
    assert [record.failed for record in shell.records(out)] == [False, False]


def test_what_is_missing_to_speak_tls_is_named(scheduler, keys, impatient):
    with (
        pytest.raises(StudyError, match=r"dask has no setting distributed\.comm\.tls\.ca-file"),
        connect(scheduler=scheduler),
    ):
        pass
    known = {"distributed.comm.tls.ca-file": keys["cert"]}
    with (
        dask.config.set(known),
        pytest.raises(StudyError, match=r"has no setting distributed\.comm\.tls\.client\.cert"),
        connect(scheduler=scheduler),
    ):
        pass
    plain = scheduler.replace("tls://", "tcp://")
    with (
        pytest.raises(StudyError, match=f"no scheduler answers at {plain}: .* begins with tls://"),
        connect(scheduler=plain),
    ):
        pass


def test_another_authoritys_certificate_is_refused(scheduler, tmp_path, impatient):
    key, cert = tmp_path / "other-key.pem", tmp_path / "other.pem"
    words = ("req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=other")
    made = ["openssl", *words, "-keyout", str(key), "-out", str(cert)]
    subprocess.run(made, check=True, capture_output=True)
    settings = {"ca-file": cert, "client.cert": cert, "client.key": key}
    known = {f"distributed.comm.tls.{name}": str(path) for name, path in settings.items()}
    with (
        dask.config.set(known),
        pytest.raises(StudyError, match=f"no scheduler answers at {scheduler}"),
        connect(scheduler=scheduler),
    ):
        pass
