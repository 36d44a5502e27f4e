"""The documentation site: it builds without a warning, leads to every page, and asks nobody."""

from __future__ import annotations

import codeop
import json
import re
import runpy
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path

import pytest
from docutils import nodes
from docutils.core import publish_doctree
from support.chromium import CHROMIUM, MISSING, OPTIONS

import tessella
import tessella.plot

ROOT = Path(__file__).parent.parent
DOCS = ROOT / "docs"
PAGES = sorted(DOCS.rglob("*.md"))
API = runpy.run_path(str(ROOT / "scripts" / "api_pages.py"))
NAVIGATION_MAX_LINKS = 30
LOADING = {"script": "src", "img": "src", "iframe": "src", "source": "src", "object": "data"}


def named(page: Path) -> str:
    return page.relative_to(DOCS).with_suffix("").as_posix()


def toctree(page: str) -> list[str]:
    """The pages that a page lists in the navigation, in its order."""
    trees = re.findall(r"```\{toctree\}\n(.*?)```", (DOCS / page).read_text(), re.DOTALL)
    return [name for tree in trees for name in re.findall(r"<(\S+)>$", tree, re.MULTILINE)]


def test_every_page_is_in_the_navigation_once_but_for_problems_and_raw_tables():
    found = [*toctree("index.md"), *(f"api/{name}" for name in toctree("api/index.md"))]
    unlisted = tuple(runpy.run_path(str(DOCS / "_site" / "unlisted.py"))["FOLDERS"])
    names = [named(page) for page in PAGES if page != DOCS / "index.md"]
    assert [name for name in names if not name.startswith(unlisted) and name not in found] == []
    assert len(found) == len(set(found))
    assert set(found) <= set(names)


def test_the_navigation_has_few_links():
    assert len(toctree("index.md")) <= NAVIGATION_MAX_LINKS


def test_pages_outside_the_navigation_are_linked_from_a_page():
    linked = {
        (page.parent / target).resolve()
        for page in PAGES
        for target in re.findall(r"\]\(([\w/.-]+\.md)(?:#[\w-]*)?\)", page.read_text())
    }
    assert [named(page) for page in PAGES if page not in linked and page.name != "index.md"] == []


def test_every_public_name_is_in_the_reference_once():
    pages = [PAGE for PAGE in API["PAGES"].values() if PAGE.namespace == "ts"]
    listed = " ".join(page.names for page in pages).split()
    assert sorted(listed) == sorted(set(tessella.__all__) - {"__version__"})
    assert set(API["PAGES"]["plotting"].names.split()) <= set(vars(tessella.plot))


@pytest.mark.parametrize("name", API["PAGES"])
def test_the_reference_shows_the_signatures_and_docstrings_of_the_code(name):
    """`python scripts/api_pages.py` writes it."""
    assert (DOCS / "api" / f"{name}.md").read_text() == API["render_page"](API["PAGES"][name])


def test_the_comparison_with_other_packages_shows_the_figures_of_its_run():
    """`python scripts/speed_table.py` writes it."""
    script = runpy.run_path(str(ROOT / "scripts" / "speed_table.py"))
    block = script["render_block"](json.loads(script["FIGURES"].read_text()))
    assert block in script["PAGE"].read_text()


def test_every_page_with_programs_is_run_by_a_test():
    tests = {p: p.read_text() for p in (ROOT / "tests").rglob("*.py") if p != Path(__file__)}
    running = [text for text in tests.values() if "check_page" in text]
    generated = {"api", "gallery"}  # signatures, and one program with many names
    programs = [page for page in PAGES if "```python" in page.read_text()]
    programs = [page for page in programs if page.parent.name not in generated]
    names = [page.relative_to(DOCS).as_posix() for page in programs]
    assert [name for name in names if not any(f'"{name}"' in text for text in running)] == []


def test_every_test_that_a_page_names_is_there():
    missing = []
    for page in PAGES:
        for file, name in re.findall(r"`([\w/]+\.py)::(test_\w+)`", page.read_text()):
            path = ROOT / "tests" / file
            if not path.exists() or f"def {name}(" not in path.read_text():
                missing.append(f"{page.name}: {file}::{name}")
    assert missing == []


@pytest.mark.parametrize("page", PAGES, ids=named)
def test_what_is_copied_from_a_session_can_be_pasted_at_a_prompt(page):
    """Without the empty line that ends a definition, Python takes what follows for a part of it."""
    pending: list[str] = []
    for number, line in enumerate(page.read_text().splitlines(), 1):
        said = line.strip()
        if said.startswith(">>>"):
            assert not pending, f"{page}:{number}: no empty line ends {pending[0]!r}"
            pending = [said[4:]]
        elif pending and (said == "..." or said.startswith("... ")):
            pending.append(said[4:])
        else:
            assert not pending, f"{page}:{number}: no empty line ends {pending[0]!r}"
            continue
        if codeop.compile_command("\n".join(pending)) is not None:
            pending = []


@pytest.mark.parametrize("page", PAGES, ids=named)
def test_programs_on_pages_can_be_pasted_at_a_prompt(page):
    """An empty line ends each loop and definition, and is nowhere within one."""
    if page.parent.name == "api":
        return  # signatures
    for program in re.findall(r"```python\n(.*?)```", page.read_text(), re.DOTALL):
        if ">>>" not in program:
            assert leave_pending([*program.splitlines(), ""]) == []


def leave_pending(lines: list[str]) -> list[str]:
    """The lines at a prompt that no statement has taken; raises SyntaxError as the prompt does."""
    pending: list[str] = []
    for line in lines:
        pending.append(line)
        if codeop.compile_command("\n".join(pending)) is not None:
            pending = []
    return pending


def test_blocks_end_with_their_last_line_and_keep_the_markup_within_them():
    blocks = runpy.run_path(str(DOCS / "_site" / "blocks.py"))
    tree = publish_doctree("::\n\n  plain\n\n.. parsed-literal::\n\n  some *slanted* text")
    plain, marked = tree.findall(nodes.literal_block)
    plain[0] = nodes.Text("plain\n\n")
    before = marked.pformat()
    blocks["trim"](None, tree)
    assert plain.astext() == plain.rawsource == "plain"
    assert marked.pformat() == before
    assert [part.astext() for part in marked.findall(nodes.emphasis)] == ["slanted"]


class Asked(HTMLParser):
    """What a page makes a browser fetch: scripts, styles, pictures, fonts."""

    def __init__(self) -> None:
        super().__init__()
        self.addresses: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        relations = (given.get("rel") or "").split()
        if tag in LOADING:
            self.addresses.append(given.get(LOADING[tag]) or "")
        if tag == "link" and not {"next", "prev", "index", "search"} & set(relations):
            self.addresses.append(given.get("href") or "")


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    out = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "sphinx", "-q", "-W", "--keep-going", "-E"]
    done = subprocess.run([*command, str(DOCS), str(out)], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return out


def test_the_site_builds_without_a_warning_and_has_every_page(site):
    assert all((site / f"{named(page)}.html").is_file() for page in PAGES)


def test_no_page_loads_anything_from_outside(site):
    outside = set()
    for page in site.rglob("*.html"):
        reader = Asked()
        reader.feed(page.read_text(encoding="utf-8"))
        assert reader.addresses
        outside |= {a for a in reader.addresses if re.match(r"(\w+:)?//", a)}
    for style in site.rglob("*.css"):
        text = style.read_text(encoding="utf-8")
        outside |= set(re.findall(r"(?:url\(|@import)\s*['\"]?((?:\w+:)?//[^)'\"]+)", text))
    assert outside == set()


def test_every_formula_is_markup_that_a_browser_draws_by_itself(site):
    assert "<math" in (site / "paper.html").read_text(encoding="utf-8")
    scripts = [path.name.lower() for path in site.rglob("*.js")]
    assert [name for name in scripts if "mathjax" in name or "katex" in name] == []


# Output lines that are wider than their box, and what a reader who copies every session gets.
LOOKED_AT = """() => [
  [...document.querySelectorAll("pre .go:not(.columns)")].filter((line) => {
    const box = line.closest("pre").getBoundingClientRect();
    const range = document.createRange();
    range.selectNodeContents(line);
    return range.getBoundingClientRect().right > box.right + 1;
  }).length,
  [...document.querySelectorAll("pre:has(.gp)")].map((pre) => {
    getSelection().selectAllChildren(pre);
    return getSelection().toString();
  }),
]"""


@pytest.mark.skipif(CHROMIUM is None, reason=MISSING)
def test_what_programs_print_fits_the_page_and_sessions_are_copied_without_prompts(site):
    from playwright.sync_api import sync_playwright

    with sync_playwright() as drives:
        browser = drives.chromium.launch(executable_path=CHROMIUM, args=OPTIONS)
        for width in (420, 1200):
            page = browser.new_page(viewport={"width": width, "height": 900})
            for name in ("start", "rules", "gallery"):
                page.goto((site / f"{name}.html").as_uri())
                wide, copied = page.evaluate(LOOKED_AT)
                assert wide == 0, f"{name} at {width} px"
                assert not any(">>>" in text or "..." in text for text in copied)
                assert name != "rules" or any("ts.compress(" in text for text in copied)
        browser.close()


def test_tables_that_programs_print_keep_their_columns(site):
    table, prose = ((site / f"{n}.html").read_text("utf-8") for n in ("study", "start"))
    assert re.search(r'class="go columns">linear +50 ', table)
    assert 'class="go">Rule type:' in prose


def test_blocks_of_code_end_with_their_last_line(site):
    text = (site / "rules.html").read_text(encoding="utf-8")
    assert "<pre " in text
    assert not re.search(r"\n\s*\n</pre>", text)


def test_what_scrolls_takes_the_focus_and_headings_have_levels(site):
    for page in site.rglob("*.html"):
        text = page.read_text(encoding="utf-8")
        assert "<pre>" not in text
        assert not re.search(r'<div class="(table-wrapper|formula)', text)
        assert text.count('role="heading"') == text.count('role="heading" aria-level=')


# The first result of a search, by query.
FIRST_RESULTS = {
    "install": ("start.html",),
    "plot": ("api/plotting.html",),
    "order up to": ("cookbook.html", "rules.html"),
}


@pytest.mark.skipif(CHROMIUM is None, reason=MISSING)
def test_a_search_leads_to_the_right_page_first(site):
    from playwright.sync_api import sync_playwright

    with sync_playwright() as drives:
        browser = drives.chromium.launch(executable_path=CHROMIUM, args=OPTIONS)
        page = browser.new_page()
        for query, expected in FIRST_RESULTS.items():
            page.goto(f"{(site / 'search.html').as_uri()}?q={query.replace(' ', '+')}")
            page.wait_for_selector("#search-results .search-summary:has-text('found')")
            first = page.get_attribute("#search-results li a", "href") or ""
            assert re.split("[?#]", first)[0] in expected, query
        browser.close()
