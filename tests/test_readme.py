"""The README's own words: its programs run, its links lead somewhere."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
README = (ROOT / "README.md").read_text()


@pytest.mark.parametrize("program", re.findall(r"```python\n(.*?)```", README, re.DOTALL))
def test_the_programs_of_the_readme_run(program, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    exec(compile(program, "README.md", "exec"), {})
    said = capsys.readouterr().out
    assert said.strip()
    promised = re.match(
        r"\s*```\n(.*?)```", README[README.index(program) + len(program) + 3 :], re.S
    )
    if promised is not None:
        for line, printed in zip(promised[1].splitlines(), said.splitlines(), strict=False):
            assert printed.startswith(line.removesuffix("...")), "what the README says is printed"


def test_the_readme_leads_to_every_page():
    linked = set(re.findall(r"\]\(docs/([\w-]+\.md)\)", README))
    assert {page.name for page in (ROOT / "docs").glob("*.md")} <= linked


def test_the_readme_names_every_folder_of_the_package():
    listed = re.findall(r"`(\w+)`", README[README.index("in the order of the data") :])
    folders = {path.parent.name for path in (ROOT / "src" / "tessella").glob("*/__init__.py")}
    assert sorted(listed) == sorted(folders)


@pytest.mark.parametrize("page", PAGES, ids=lambda p: p.name)
def test_links_between_pages_lead_somewhere(page):
    for target in re.findall(r"\]\(([^)#:]+?)(?:#[^)]*)?\)", page.read_text()):
        assert (page.parent / target).exists(), f"{page.name} links to {target}"
