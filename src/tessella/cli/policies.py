"""The commands about policies and rules: fit, certify, compress, export and diff."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

import tessella as ts
from tessella.cli import arguments
from tessella.cli.cache import solve_with_status
from tessella.cli.command import Answer, as_command
from tessella.errors import ArgumentError
from tessella.files import read_json, require_writable
from tessella.support.json_values import to_json_value
from tessella.support.progress import open_progress

if TYPE_CHECKING:
    from tessella.certificates.certificate import Certificate
    from tessella.rules.compress import Preference, SearchOptions

OPTIMAL_WORD = "optimal"
SEARCH_MIN_SECONDS = 1e-3  # of the frontier, however much time the rule took


def read_policy(path: Path) -> ts.Policy:
    """A rule or a policy from the file where ``save`` put it."""
    from tessella.mdp.policy import RULE_FORMAT

    content = read_json(path, "a saved rule or policy")
    is_rule = isinstance(content, dict) and content.get("format") == RULE_FORMAT
    return ts.Rule.load(path) if is_rule else ts.Policy.load(path)


def require_writable_targets(paths: Iterable[Path]) -> None:
    """Before any work: files of a known ending, in folders that are there, that can be written."""
    from tessella.rules.export.export import find_format

    for path in paths:
        find_format(path).require_packages()
        require_writable(path)


def write_policy(policy: ts.Policy, out: Path) -> str:
    """Write a policy by the ending of ``out``, and return a line about it."""
    if out.suffix.lower() == ".json":
        policy.save(out)
        return f"{out}: saved, for other commands"
    return str(ts.export(policy, out))


def certificate_json(certificate: Certificate) -> dict[str, Any]:
    """Errors and losses, each loss with its bounds; None for what is not stated."""
    from tessella.certificates.interval import Interval

    state = getattr(certificate, "worst_state", None)
    losses = {
        name: getattr(certificate, name) for name in ("mean_loss", "relative_loss", "worst_loss")
    }
    part = certificate.constrained
    constrained = part and {
        "loss": part.loss,  # against the best policy with the constraints
        "constraints": [
            {"measure": one.name, **one.bound, "proven": one.proven[key], "price": one.price}
            for one in part.constraints
            for key in one.bound
        ],
    }
    return {
        "policy_error": getattr(certificate, "policy_error", None),
        "costly_error": getattr(certificate, "costly_error", None),
        **to_json_value(losses, {Interval: Interval.record}),
        "worst_state": None if state is None else certificate.grid.describe(state),
        "constrained": constrained,
    }


class LossParam(click.ParamType):
    """``1%`` or ``0.01`` of the optimal value, or ``12.5 units`` in the units of the model."""

    name = "loss"

    def convert(self, value: Any, param: Any, ctx: Any) -> tuple[float, bool]:
        from tessella.rules.loss_target import parse_loss

        if isinstance(value, tuple):
            return value
        try:
            return parse_loss(value)
        except ArgumentError as error:
            self.fail(str(error), param, ctx)


class LearnerParam(click.Choice):
    """The name of a learner; they load slowly, and so only when a name is read or listed."""

    def __init__(self) -> None:
        self.case_sensitive = True

    @cached_property
    def choices(self) -> tuple[str, ...]:  # type: ignore[override]
        from tessella.learn import LEARNERS

        return tuple(LEARNERS)


@as_command("fit", example="tessella fit INV-Mix --learner margin --samples 1600 -o policy.json")
@arguments.model_argument
@click.option("--learner", type=LearnerParam(), default="margin")
@click.option("--samples", type=click.IntRange(1), default=1600)
@click.option(
    "--noise",
    type=float,
    help="Noise of observed states, in grid steps; by default the model's own.",
)
@click.option("--seed", type=click.IntRange(0), default=0)
@click.option("-o", "--out", type=arguments.PATH, help="Write the policy: .json or .csv.")
def fit_command(model, learner, samples, noise, seed, out) -> Answer:
    """Learn a policy from labelled states, and certify its loss."""
    from tessella.learn import make_learner

    if out is not None:
        require_writable_targets((out,))
    solution = model.solve_unconstrained()
    sample = ts.draw(solution, samples, noise=noise, rng=seed)
    policy = ts.fit(make_learner(learner, seed), sample)
    certificate = ts.certify(solution, policy)
    if out is not None:
        write_policy(policy, out)
    data = {
        "model": arguments.describe_model(solution.mdp),
        "learner": learner,
        "samples": samples,
        "seed": seed,
        "size": policy.size,
        "certificate": certificate_json(certificate),
        "file": out,
    }
    messages = [f"wrote {out}"] if out is not None else []
    return Answer("\n".join([certificate.summary(), *messages]), data)


@as_command(
    "certify",
    example="tessella certify INV-Mix rule.csv --save certificate.json\n"
    'tessella certify inventory rule.json --subject-to "fill_rate >= 98%"',
)
@arguments.model_argument
@click.argument("policy", type=arguments.EXISTING_FILE)
@arguments.start_option
@arguments.constraints_option
@click.option("--save", type=arguments.PATH, help="Write the certificate as JSON.")
def certify_command(model, policy, start, subject_to, save) -> Answer:
    """Compute what a policy loses on a model, exactly.

    With constraints (--subject-to, or those of a model file) a policy that satisfies them is
    compared with the best of all policies that do. They apply to the model's own start.

    POLICY is a saved rule or policy (.json), or a CSV file with a row for each state: a column for
    each axis, and one for the action.
    """
    from tessella.certificates.constrained import certify_constrained

    mdp = model.mdp
    if subject_to and start is not None:
        raise ArgumentError("constraints are about the model's own start", value="got --start")
    constraints = {}
    if start is None:
        constraints = arguments.collect_constraints(mdp, subject_to)
    else:
        model.ignore_constraints()
    chosen = mdp.policy(policy)
    certificate = None
    if constraints:
        with arguments.citing_levels(model, constraints):
            constrained: Any = solve_with_status(mdp, subject_to=constraints)
            certificate = certify_constrained(constrained, chosen)
    start_state = arguments.parse_start(mdp, start)
    if certificate is None:  # without constraints, or the policy misses one
        certificate = ts.certify(model.solution, chosen, start_state)
    measured = ts.evaluate(mdp, chosen, start_state).measures if mdp.measures else {}
    missed = {
        name: f"Not satisfied: {name} {constraint}; it is {measured[name]}."
        for name, constraint in constraints.items()
        if measured[name] is None or not constraint.is_met_by(measured[name])
    }
    if save is not None:
        certificate.save(save)
    text, measures = arguments.describe_measures(measured)
    data = {"model": arguments.describe_model(mdp), "policy": certificate.policy.name}
    data |= {"certificate": certificate_json(certificate), "missed": list(missed)}
    data |= {"measures": measures, "file": save}
    return Answer("\n\n".join([*missed.values(), certificate.summary()]) + text, data)


@as_command(
    "compress",
    example="tessella compress perishable --loss 0.5% -o rule.sql -o rule.json\n"
    "tessella compress INV-Mix --loss 1% --worst --time-limit 20\n"
    'tessella compress inventory --loss 2% --subject-to "fill_rate >= 98%" -o rule.xlsx',
)
@arguments.model_argument
@click.option(
    "--loss", type=LossParam(), default="1%", help="The largest loss: 1%, 0.01, or '12.5 units'."
)
@click.option(
    "--worst",
    is_flag=True,
    help="Bound the loss from the worst state, not on average over the start.",
)
@arguments.start_option
@arguments.constraints_option
@click.option(
    "--class",
    "kinds",
    multiple=True,
    help="Search only this class of rules, such as 'order up to'; may repeat.",
)
@click.option(
    "--time-limit", type=float, help="Seconds in all, after which the best rule so far is taken."
)
@click.option(
    "-o",
    "--out",
    type=arguments.PATH,
    multiple=True,
    help="Write the rule: .json .c .py .sql .xlsx ...; may repeat.",
)
@click.option("--certificate", type=arguments.PATH, help="Write its certificate as JSON.")
@click.option("--frontier", is_flag=True, help="Also search all sizes; list size against loss.")
@click.option(
    "--prefer",
    type=click.Choice(["readable", "smallest"]),
    default="readable",
    help="A readable rule may have one parameter more than the smallest.",
)
def compress_command(
    model, loss, worst, start, subject_to, kinds, time_limit, out, certificate, frontier, prefer
) -> Answer:
    """Find the smallest rule whose certified loss is within a target.

    With constraints (--subject-to, or those of a model file) the rule satisfies them, and its loss
    is measured against the best policy that does. A .json file holds the rule for other commands
    (certify, export, diff, map, simulate).
    """
    from tessella.mdp.measures import describe_constraints
    from tessella.rules.compress import check_classes

    require_writable_targets(out)
    mdp = model.mdp
    constraints = arguments.collect_constraints(mdp, subject_to)
    if constraints and frontier:
        given = " and ".join(subject_to) or describe_constraints(constraints)
        raise ArgumentError("--frontier lists rules without constraints", value=f"got {given}")
    solution: Any = mdp if constraints else model.solution
    amount, relative = loss
    with open_progress() as progress, arguments.citing_levels(model, constraints):
        options: SearchOptions = {
            "start": arguments.parse_start(mdp, start),
            "worst": worst,
            "relative": relative,
            "time_limit": time_limit,
            "progress": progress.status,
            "classes": check_classes("--class", kinds) if kinds else None,
        }
        if frontier:
            rule = _compress_with_frontier(solution, amount, prefer, options)
        else:
            rule = ts.compress(
                solution, amount, prefer=prefer, subject_to=constraints or None, **options
            )
    messages = {str(path): write_policy(rule, path) for path in out}
    if certificate is not None:
        assert rule.certificate is not None  # ``compress`` makes one
        rule.certificate.save(certificate)
        message = f"{certificate}: the certificate, for `tessella check MODEL --certificate`"
        messages[str(certificate)] = message
    frontier_text = f"Size against loss:\n{rule.frontier}" if frontier else ""
    parts = [rule.explain(), frontier_text, "\n".join(messages.values())]
    return Answer("\n\n".join(filter(None, parts)), _describe_rule(rule, mdp, list(messages)))


def _compress_with_frontier(
    solution: ts.Solution, loss: float, prefer: Preference, options: SearchOptions
) -> ts.Rule:
    """The rule, found in half of the time limit, with the frontier found in the rest of it."""
    limit = options.get("time_limit")
    if limit is not None:
        options["time_limit"] = limit / 2
    rule = ts.compress(solution, loss, prefer=prefer, **options)
    if limit is not None:
        options["time_limit"] = max(limit - rule.seconds, SEARCH_MIN_SECONDS)
    found = ts.frontier(solution, **options)
    return replace(rule, frontier=found.merge(rule.frontier))


def _describe_rule(rule: ts.Rule, mdp: ts.MDP, files: list[str]) -> dict[str, Any]:
    points = rule.frontier.points
    return {
        "model": arguments.describe_model(mdp),
        "loss_target": rule.loss_target,
        "class": rule.kind,
        "size": rule.size,
        "size_needed": rule.size_needed,
        "says": rule.explain(),
        "seconds": rule.seconds,
        "certificate": None if rule.certificate is None else certificate_json(rule.certificate),
        "frontier": [{"size": p.size, "loss": p.loss, "class": p.kind} for p in points],
        "classes": [
            {"class": o.kind, "size": o.size, "needed": o.size_needed, "said": o.explanation}
            for o in rule.outcomes
        ],
        "files": files,
    }


@as_command(
    "export",
    example="tessella export rule.json rule.c rule.sql\n"
    "tessella export policy.csv rule.xlsx --model INV-Mix\ntessella export INV-Mix optimal.c",
)
@click.argument("rule")
@click.argument("files", nargs=-1, required=True, type=arguments.PATH)
@click.option("--model", type=arguments.ModelParam(), help="For a CSV table: its model.")
@arguments.settings_option
@click.option(
    "--off-grid",
    type=click.Choice(["clamp", "refuse"]),
    help="What programs do with a state beyond the axes; clamp by default.",
)
def export_command(rule, files, model, assignments, off_grid) -> Answer:
    """Write a rule in the formats given by the file endings.

    RULE is a saved rule or policy (.json), a table (.csv, with --model), or a MODEL, whose optimal
    policy is written. Endings: .c .py .rs .sql .json .onnx .txt (formula) .xlsx .csv
    .dtcontrol.csv. Each file is run over every state before it is written.
    """
    require_writable_targets(files)
    path = Path(rule)
    if path.suffix == ".json" and model is None:
        policy = read_policy(path)
    elif path.suffix not in (".json", ".csv"):
        policy = arguments.NamedModel(rule, assignments).solve_unconstrained().policy
    elif model is None:
        raise ArgumentError("a table needs its model", value="add --model MODEL")
    else:
        policy = arguments.NamedModel(model, assignments).mdp.policy(path)
    written = [ts.export(policy, path, off_grid=off_grid) for path in files]  # type: ignore[arg-type]
    data = [
        {"file": str(w.path), "target": w.format_name, "states": w.states, "remark": w.remark}
        for w in written
    ]
    return Answer("\n".join(map(str, written)), {"rule": policy.name, "files": data})


@as_command(
    "diff",
    example="tessella diff INV-Mix old.csv rule.json\ntessella diff INV-Mix optimal rule.json",
)
@arguments.model_argument
@click.argument("a")
@click.argument("b")
@arguments.start_option
def diff_command(model, a, b, start) -> Answer:
    """Show what changes from one policy to another, in states and money.

    A and B are saved rules or policies (.json), tables (.csv), or the word optimal.
    """
    mdp = model.mdp
    optimal_policy = model.solve_unconstrained().policy if OPTIMAL_WORD in (a, b) else None
    old, new = (optimal_policy if word == OPTIMAL_WORD else Path(word) for word in (a, b))
    difference = ts.diff(mdp, old, new, start=arguments.parse_start(mdp, start))
    data = {
        "model": arguments.describe_model(mdp),
        "a": difference.a.name,
        "b": difference.b.name,
        "states": int(difference.where.sum()),
        "gain": difference.gain,
        "time_a": difference.time_a,
        "time_b": difference.time_b,
        "measures": {
            name: [None if found is None else found.value for found in both]
            for name, both in difference.measures.items()
        },
        "changes": [
            {"from": str(mdp.actions[x]), "to": str(mdp.actions[y]), "states": n, "gain": part}
            for x, y, n, part in difference.pairs
        ],
    }
    return Answer(str(difference), data)
