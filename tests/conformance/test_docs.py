"""The page about extending the package runs, and prints what it says."""

from __future__ import annotations

from support.pages import check_page


def test_the_examples_of_the_page_are_true():
    check_page("extending.md")
