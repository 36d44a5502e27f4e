"""The page about learners says what can be typed."""

from __future__ import annotations

from support.pages import check_page


def test_the_examples_of_the_page_run():
    check_page("learners.md", at_least=0)
