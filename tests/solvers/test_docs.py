"""The page about solving says what can be typed."""

from __future__ import annotations

from support.pages import check_page


def test_the_examples_of_the_page_run(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    check_page("solving.md", at_least=0)
    assert "sweeps" in capsys.readouterr().out  # of the plan
