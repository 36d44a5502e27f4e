"""Count the words of prose in the README and the documentation: python scripts/count_words.py.

Blocks of code and tables are left out, and so are pages that are generated whole: raw tables
(docs/generated) and the API reference (docs/api).
"""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[1]
GENERATED = {"generated", "api"}
WORD = re.compile(r"\w+")
FENCED = re.compile(r"^```.*?^```[^\S\n]*$", re.DOTALL | re.MULTILINE)
INDENTED = re.compile(r"^ {4}\S.*$", re.MULTILINE)  # the continuation of a list has two spaces


def list_pages() -> list[Path]:
    pages = sorted((ROOT / "docs").rglob("*.md"))
    return [ROOT / "README.md", *(page for page in pages if page.parent.name not in GENERATED)]


def keep_prose(text: str) -> str:
    """A page without its blocks of code and its tables."""
    text = INDENTED.sub("", FENCED.sub("", text))
    return "\n".join(line for line in text.splitlines() if not line.lstrip().startswith("|"))


def count_words(page: Path) -> int:
    return len(WORD.findall(keep_prose(page.read_text(encoding="utf-8"))))


if __name__ == "__main__":
    counts = {page: count_words(page) for page in list_pages()}
    for page, count in sorted(counts.items(), key=lambda item: item[1]):
        print(f"{count:7,}  {page.relative_to(ROOT)}")
    print(f"{sum(counts.values()):7,}  words")
