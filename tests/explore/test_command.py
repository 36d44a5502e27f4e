"""`tessella explore`: it says where the page is, serves it, and ends when it is interrupted."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys

import httpx
import pytest
from click.testing import CliRunner
from support.schemas import find_faults

import tessella as ts
from tessella.cli import main
from tessella.explore.server import open_socket


@pytest.mark.parametrize("handler", ["default_int_handler", "SIG_IGN"])
def test_it_prints_its_address_serves_the_page_and_ends_when_interrupted(handler, tmp_path):
    """Jobs in the background of a shell begin with interrupts ignored."""
    words = ["explore", "perishable", "--set", "life=3", "--no-browser", "--json"]
    program = (
        f"import runpy, signal; signal.signal(signal.SIGINT, signal.{handler}); "
        "runpy.run_module('tessella', run_name='__main__')"
    )
    command = [sys.executable, "-c", program, *words]
    environment = os.environ | {"TESSELLA_CACHE": str(tmp_path), "PYTHONUNBUFFERED": "1"}
    with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        told = ""
        while not told.endswith("}\n") and (line := process.stdout.readline()):
            told += line
        document = json.loads(told)
        assert find_faults(document, "commands.schema.json", "commands/explore") == []
        page, _, view = document["address"].partition("#")
        assert view == "model=perishable&set.life=3"
        found = httpx.get(page, trust_env=False, timeout=60)
        assert "tessella explorer" in found.text
        process.send_signal(signal.SIGINT)
        assert process.wait(timeout=60) == 130


def test_without_its_extra_it_says_what_to_install(monkeypatch):
    for name in [name for name in sys.modules if name.startswith("tessella.explore.server")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "uvicorn", None)
    done = CliRunner().invoke(main, ["explore", "--no-browser"])
    assert done.exit_code == 1
    assert "needs the extra 'explore': pip install 'tessella[explore]'" in done.output


def test_a_port_that_is_taken_is_said_or_another_found():
    with open_socket(0) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(ts.ArgumentError, match=f"needs a free port; got {port}"):
            open_socket(port)
    with open_socket(None) as first, open_socket(None) as second:
        assert first.getsockname() != second.getsockname()


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["perishabel"], "no problem is called 'perishabel'; did you mean 'perishable'?"),
        (["perishable", "--set", "lief=3"], "no parameter 'lief'; did you mean 'life'?"),
        (["perishable", "--set", "life=30"], "life must be a whole number from 1 to 6"),
        (["perishable", "--set", "life"], "got no value; write --set life=VALUE"),
        (["--set", "life=3"], "INV-Mix has no parameter 'life'"),
        (["missing.toml"], "missing.toml"),
        (["small.toml", "--set", "depth=3"], "depth"),
        (["small.toml", "--most-states", "3"], "a model has at most 3 states here"),
    ],
)
def test_what_cannot_be_opened_is_refused_before_the_page(words, message, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    ts.write_model("machine_replacement", tmp_path / "small.toml")
    opened = []
    monkeypatch.setattr("webbrowser.open", opened.append)
    monkeypatch.setattr("tessella.explore.server.serve", lambda *settings: opened.append(settings))
    done = CliRunner().invoke(main, ["explore", *words])
    assert done.exit_code == 1
    assert message in done.output
    assert opened == []
