"""Draw the animated picture of the README: a cost changes, and the map and its rule follow.

python scripts/animation.py [--out FILE]

The file carries the facts that it shows, as JSON in its comment, so that a test can compare them
with the models of today.
"""

from __future__ import annotations

import argparse
import json
from io import BytesIO
from pathlib import Path
from typing import Any

import matplotlib
from matplotlib.figure import Figure
from PIL import Image

import tessella as ts
from tessella.paper.figures import FIGURE_STYLE
from tessella.plot import rule_map

IMAGE = Path(__file__).parents[1] / "docs" / "images" / "tessella.gif"
PROBLEM = "perishable"
SETTING = "shortage_cost"
VALUES = (4.5, 5.0, 5.5, 6.0, 7.0, 8.0, 9.0, 10.0, 12.0, 14.0)
LOSS_LIMIT = 0.01
SIZE_INCHES = (7.9, 3.5)
DOTS_PER_INCH = 96
FRAME_MS = 450
LAST_FRAME_MS = 1500
COLOURS = 96


def solve_setting(value: float) -> ts.Solution:
    return ts.solve(ts.problem(PROBLEM).build(**{SETTING: value}))


def describe(value: float, solution: ts.Solution, rule: ts.Rule) -> dict[str, Any]:
    """What the picture says about one setting: its cost, the rule and what that loses."""
    loss = rule.certificate.relative_loss
    assert loss is not None
    return {
        "value": value,
        "cost": round(-solution.mean, 2),
        "rule": rule.explain().partition(":")[0],
        "loss": float(loss.upper),
        "size": rule.size,
    }


def draw_frame(value: float) -> tuple[Image.Image, dict[str, Any]]:
    """One picture, and the facts on it."""
    solution = solve_setting(value)
    rule = ts.compress(solution, loss=LOSS_LIMIT, classes=[ts.OrderUpTo()])
    facts = describe(value, solution, rule)
    figure = Figure(figsize=SIZE_INCHES, layout="constrained")
    left, right = figure.subplots(1, 2, width_ratios=(1.1, 1))
    rule_map(left, ts.tessellate(solution), ts.tessellate(solution.mdp, rule))
    left.set_xlabel("units that expire in two days (life2)")
    left.set_ylabel("units that expire tomorrow (life1)")
    draw_facts(right, facts, solution.mdp.n_states)
    content = BytesIO()
    figure.savefig(content, dpi=DOTS_PER_INCH, format="png")
    return Image.open(content).convert("RGB"), facts


def draw_facts(axes: Any, facts: dict[str, Any], n_states: int) -> None:
    """A slider, the optimal cost, and the rule in words."""
    axes.set_axis_off()
    axes.set_xlim(-0.03, 1.05)  # room for the knob and the longest line
    axes.set_ylim(0, 1)
    share = (facts["value"] - VALUES[0]) / (VALUES[-1] - VALUES[0])
    axes.text(0, 0.96, f"cost of a missed sale: {facts['value']:g}", fontsize=11)
    axes.plot([0, 0.95], [0.86, 0.86], color="0.8", linewidth=4, solid_capstyle="round")
    axes.plot([0, 0.95 * share], [0.86, 0.86], color="#0072b2", linewidth=4)
    axes.plot([0.95 * share], [0.86], "o", color="#0072b2", markersize=11)
    axes.text(0, 0.66, f"Optimal cost {facts['cost']:,.0f}", fontsize=11)
    axes.text(0, 0.44, "The rule (dashed line):", fontsize=11)
    axes.text(0, 0.32, facts["rule"], fontsize=11, fontweight="bold")
    axes.text(
        0, 0.2, f"{facts['size']} parameters instead of {n_states} table entries", fontsize=11
    )
    axes.text(0, 0.08, f"At most {facts['loss']:.2%} above the optimum, proven", fontsize=11)


def read_facts(path: Path) -> list[dict[str, Any]]:
    """The facts that a picture carries."""
    with Image.open(path) as picture:
        return json.loads(picture.info["comment"])


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--out", type=Path, default=IMAGE)
    out = parser.parse_args().out
    with matplotlib.rc_context(FIGURE_STYLE):
        frames = [draw_frame(value) for value in VALUES]
    pictures = [picture.quantize(COLOURS, dither=Image.Dither.NONE) for picture, _ in frames]
    sequence = [*pictures, *pictures[-2:0:-1]]  # there and back
    durations = [FRAME_MS] * len(sequence)
    durations[0] = durations[len(pictures) - 1] = LAST_FRAME_MS
    comment = json.dumps([facts for _, facts in frames]).encode()
    sequence[0].save(
        out, save_all=True, append_images=sequence[1:], duration=durations, loop=0, comment=comment
    )
    print(out, f"{out.stat().st_size / 1e6:.2f} MB")


if __name__ == "__main__":
    main()
