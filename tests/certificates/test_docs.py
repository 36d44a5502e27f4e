"""The page about certificates says what can be typed, and what comes out."""

from __future__ import annotations

import re

from support.pages import DOCS, check_page


def test_the_examples_of_the_page_run_and_print_what_it_shows(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    check_page("certificates.md", at_least=0)
    said = " ".join(capsys.readouterr().out.split())
    page = re.sub(r"```python.*?```", "", (DOCS / "certificates.md").read_text(), flags=re.DOTALL)
    summary, *_ = re.findall(r"(?:^    .*\n|^\n(?=    ))+", page, re.MULTILINE)
    lines = [" ".join(line.split()) for line in summary.splitlines() if "..." not in line]
    assert len(lines) > 6
    assert [line for line in lines if line not in said] == []
