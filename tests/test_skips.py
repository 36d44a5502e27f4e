"""Tests that need a program or a right are skipped where it is missing, and counted."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

from support import chromium, disks, libreoffice

ROOT = Path(__file__).parent.parent
NEEDING = (
    "tests/explore/test_page.py",
    "tests/rules/export/test_libreoffice.py",
    "tests/rules/export/test_agreement.py::"
    "test_rust_compiles_without_a_warning_as_a_module_and_as_a_library",
    "tests/test_files.py::test_a_full_disk_keeps_the_old_files_wherever_one_can_be_mounted",
)


def test_skipped_tests_are_counted_in_the_last_line_with_what_they_need(tmp_path):
    nowhere = {**os.environ, "PATH": str(tmp_path), "CHROMIUM": ""}
    command = [sys.executable, "-m", "pytest", "-p", "no:xdist", "-p", "no:cacheprovider", *NEEDING]
    done = subprocess.run(
        command, cwd=ROOT, env=nowhere, capture_output=True, text=True, check=False
    )
    *_, line, total = done.stdout.splitlines()
    counts = re.fullmatch(
        rf"tests were skipped: (\d+) {re.escape(chromium.MISSING)}; "
        rf"(\d+) {re.escape(libreoffice.MISSING)}; "
        rf"(\d+) {re.escape('no Rust compiler (rustc)')}; 1 {re.escape(disks.NO_MOUNT)}",
        line,
    )
    assert counts is not None, done.stdout
    assert f" {sum(map(int, counts.groups())) + 1} skipped in" in total
    assert done.returncode == 0


def test_what_skipped_tests_need_is_what_continuous_integration_installs():
    script = (ROOT / ".ci" / "run").read_text()
    for missing in (chromium.MISSING, libreoffice.MISSING):
        (package,) = re.findall(r"apt-get install ([\w-]+)", missing)
        assert f"missing+=({package})" in script
