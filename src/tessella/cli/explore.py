"""``tessella explore [MODEL]``: the explorer, a page on this machine."""

from __future__ import annotations

import webbrowser
from collections.abc import Mapping
from functools import partial
from threading import Timer
from typing import Any
from urllib.parse import quote

import click

import tessella as ts
from tessella.cli import arguments
from tessella.cli.command import Answer, as_command
from tessella.errors import require_extra

DEFAULT_MODEL = "INV-Mix"
BROWSER_DELAY_SECONDS = 0.5  # until the server answers


@as_command(
    "explore", example="tessella explore\ntessella explore perishable\ntessella explore shop.toml"
)
@click.argument("model", type=arguments.ModelParam(), required=False)
@arguments.settings_option
@click.option("--port", type=click.IntRange(1, 65535), help="By default 8765, or any that is free.")
@click.option(
    "--browser/--no-browser", default=True, show_default=False, help="Whether to open the page."
)
@click.option(
    "--most-states", type=click.IntRange(1), default=500_000, help="A larger model is rejected."
)
@click.option(
    "--seconds", type=click.FloatRange(1), default=120.0, help="Work that takes longer is stopped."
)
def explore_command(model, assignments, port, browser, most_states, seconds) -> Answer:
    """Open a page on which a model is changed, solved, looked at and compressed.

    The page is served to this machine alone, until the command is interrupted.
    """
    with require_extra("the explorer", "explore"):
        from tessella.explore.server import open_socket, serve
        from tessella.explore.worker import RequestLimits

    opener, view = _open_view(model, assignments, most_states)
    listening = open_socket(port)
    address = f"http://127.0.0.1:{listening.getsockname()[1]}/{view}"
    limits = RequestLimits(states=most_states, seconds=seconds)

    def run_server() -> None:
        if browser:
            timer = Timer(BROWSER_DELAY_SECONDS, webbrowser.open, [address])
            timer.daemon = True
            timer.start()
        serve(opener, limits, listening)

    data = {"address": address, "model": model, "most_states": most_states, "seconds": seconds}
    return Answer(f"The explorer runs until Ctrl-C, at\n{address}", data, follow_up=run_server)


def _open_view(model: str | None, assignments: tuple[str, ...], max_states: int) -> tuple[Any, str]:
    """A function that opens a custom model, and the start of the page; checks the model first."""
    from tessella.grid import limit_states, require_product

    word = model or DEFAULT_MODEL
    if arguments.names_other_model(word):
        with limit_states(max_states):
            grid = arguments.NamedModel(word, assignments).ignore_constraints().grid
        require_product(grid, "the explorer")
        return partial(open_user_model, word, assignments), "#model=own"
    named_problem = ts.problem(word)
    arguments.parse_settings(named_problem, assignments)
    fragments = [f"#model={quote(named_problem.name)}"]
    for setting in assignments:
        name, _, text = setting.partition("=")
        fragments.append(f"set.{quote(name.strip())}={quote(text)}")
    return None, "&".join(fragments)


def open_user_model(
    word: str, assignments: tuple[str, ...], settings: Mapping[str, Any]
) -> ts.MDP | ts.Solution:
    """The model that ``word`` names; settings from the page come after those that were typed."""
    chosen = [
        f"{name}={','.join(map(str, value)) if isinstance(value, list) else value}"
        for name, value in settings.items()
    ]
    return arguments.NamedModel(word, (*assignments, *chosen)).opened
