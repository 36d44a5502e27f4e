"""Write the API reference, docs/api/*.md, from signatures and docstrings.

python scripts/api_pages.py

Signatures are taken from the source as they are written there, so that types have the names that
the code gives them, and the pages can be read without building the site.
"""

from __future__ import annotations

import ast
import dataclasses
import inspect
import re
import sys
import textwrap
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import tessella
import tessella.plot

PAGES_FOLDER = Path(__file__).parents[1] / "docs" / "api"
SIGNATURE_MAX_CHARACTERS = 88  # of one line; longer ones have a line for each parameter
SECTIONS = ("Args", "Attributes", "Returns", "Raises", "Yields", "Example", "Examples")
LISTED = {"Args": "Parameters", "Attributes": "Attributes", "Raises": "Raises"}
Function = ast.FunctionDef | ast.AsyncFunctionDef


@dataclass(frozen=True)
class Page:
    """One page of the reference: its title, what it is about, and the names on it."""

    title: str
    about: str
    names: str
    namespace: str = "ts"
    program: str = ""  # an example that uses several of the names


PLOTTING_PROGRAM = """\
from matplotlib.figure import Figure
import tessella as ts
from tessella.plot import frontier_plot, policy_map, rule_map, value_map

solution = ts.solve(ts.benchmark("QUE-Lin"))
rule = ts.compress(solution, loss=0.01, classes=[ts.LinearCuts()])
optimal = ts.tessellate(solution)
figure = Figure(figsize=(9, 6), layout="constrained")
(first, second), (third, fourth) = figure.subplots(2, 2)
policy_map(first, optimal)                                     # the optimal policy
value_map(second, solution)                                    # its values
rule_map(third, optimal, ts.tessellate(solution.mdp, rule))    # a rule over the policy
frontier_plot(fourth, rule.frontier, rule)                     # loss against size
figure.savefig("queue.png")
"""
PAGES = {
    "models": Page(
        "API: models",
        "A model, its stages, its criterion, and policies. Guides: [writing a model](../models.md),"
        " [policies and starts](../policies.md).",
        "MDP StateGrid Decide Shift Move Jump Pay Noise truncated_poisson Event Clock Discounted "
        "Average FiniteHorizon Total Policy as_policy simulate Paths",
    ),
    "problems": Page(
        "API: problems and model files",
        "Problems by name, and models in text files. Guides: [problem gallery](../gallery.md), "
        "[model files](../model-files.md).",
        "problem all_problems register Problem Theory Integer Integers Number Numbers Choice "
        "benchmark BENCHMARKS inventory queue_admission read_model write_model",
    ),
    "solving": Page(
        "API: solving",
        "From a model to its optimum, with a bound on the error. Guide: [solving](../solving.md).",
        "solve Solution plan ExecutionPlan Thresholds TileSizes CostEstimate evaluate Evaluation "
        "ConstrainedSolution AtLeast AtMost MeasureValue tradeoff Tradeoff occupancy Occupancy "
        "Method InexactPolicyIteration PolicyIteration ModifiedPolicyIteration ValueIteration "
        "LinearProgramming BackwardInduction MixedPrecision InPlace Checkpoint open_progress",
    ),
    "geometry": Page(
        "API: geometry and structure",
        "A policy as a partition of its grid. Guide: [geometry](../geometry.md).",
        "tessellate Tessellation measure Geometry examine Structure switching_curves compare "
        "Comparison refine Refinement",
    ),
    "learning": Page(
        "API: learning",
        "Policies from labelled states, or from a simulator. Guide: "
        "[learners and baselines](../learners.md).",
        "draw Sample Uniform ByOccupancy Stratified fit fit_batch LinearBoundary NeuralBoundary "
        "MarginBoundary LocalBoundary train train_batch TabularQ DoubleQ FittedQ",
    ),
    "certificates": Page(
        "API: certificates",
        "What a policy loses, with proof. Guide: [certificates](../certificates.md), with the "
        "parts that a certificate may have. A figure of a part is also an attribute of it.",
        "certify Certificate loss Loss estimate Estimate",
    ),
    "rules": Page(
        "API: rules",
        "Small rules within a loss limit, and exports. Guides: [small rules](../rules.md), "
        "[deploy a rule](../deploying.md).",
        "compress Rule frontier Frontier tune Tuned diff Difference export read_dtcontrol scaling "
        "Scaling least_size RuleClass Costs Candidate OneAction OrderUpTo LinearCuts Staircase "
        "MonotoneSurface SmallNetwork AxisTree LinearTree RunLength WithExceptions",
    ),
    "plotting": Page(
        "API: plotting",
        "How to plot a policy, a rule or a frontier. Each function takes matplotlib axes and a "
        "result, draws, and returns the axes: `from tessella.plot import policy_map`. Guide: "
        "[pictures of a policy](../geometry.md#pictures).",
        "policy_map rule_map rule_plot frontier_plot tradeoff_plot difference_map error_map "
        "value_map margin_map margin_error small_multiples action_colours "
        "boundary_lines",
        "tessella.plot",
        PLOTTING_PROGRAM,
    ),
    "studies": Page(
        "API: studies",
        "Methods compared on problems. Guide: [studies](../study.md#your-own-study).",
        "Study run_study StudyResults Measure LearnerMethod BaselineMethod FunctionMethod",
    ),
    "errors": Page(
        "API: errors",
        "What is raised, and when. Every message names the requirement, the location and the "
        "value. There is no `ConvergenceError`: a solver that reaches its limit raises "
        "`NotConverged`.",
        "TessellaError ModelError ModelFileError ArgumentError PolicyError NotConverged FileError "
        "StudyError MissingExtra",
    ),
}


def render_page(page: Page) -> str:
    """The Markdown text of one page."""
    module = tessella if page.namespace == "ts" else tessella.plot
    names = page.names.split()
    lines = [f"# {page.title}", "", page.about, ""]
    if page.program:
        lines += [*code_block(page.program), ""]
    for name, anchor in zip(names, list_anchors(names), strict=True):
        lines.append(f"- [`{name}`](#{anchor}): {summarise(getattr(module, name))}")
    for name in names:
        lines += ["", f"## {name}", "", *render_entry(page.namespace, name, getattr(module, name))]
    return "\n".join(lines).rstrip() + "\n"


def list_anchors(names: list[str]) -> list[str]:
    """The anchors of headings: ``loss``, and ``loss-1`` for a later ``Loss``."""
    counts: dict[str, int] = {}
    anchors = []
    for name in names:
        anchor = name.lower()
        count = counts.get(anchor, 0)
        anchors.append(f"{anchor}-{count}" if count else anchor)
        counts[anchor] = count + 1
    return anchors


def summarise(found: Any) -> str:
    """The first sentence of a docstring."""
    if not is_documented(found):
        return f"{type(found).__name__}."
    text = " ".join(inspect.cleandoc(found.__doc__ or "").split("\n\n")[0].split())
    return to_markdown(text)


def is_documented(found: Any) -> bool:
    return inspect.isclass(found) or inspect.isfunction(found)


def render_entry(namespace: str, name: str, found: Any) -> list[str]:
    """Signature and documentation of one public name."""
    if inspect.isclass(found):
        return render_class(namespace, name, found)
    if inspect.isfunction(found):
        node = find_definition(found)
        assert isinstance(node, Function)
        signature = format_signature(f"{namespace}.{name}", node, skip_first=False)
        return [*code_block(signature), "", *render_docstring(ast.get_docstring(node))]
    if isinstance(found, tessella.Problem):
        return [
            f"A `Problem`: {found.title[:1].lower()}{found.title[1:]}. See `tessella show {name}`."
        ]
    return [f"`{type(found).__name__}` of {', '.join(f'`{one}`' for one in found)}."]


def render_class(namespace: str, name: str, found: type) -> list[str]:
    node = find_definition(found)
    assert isinstance(node, ast.ClassDef)
    lines = render_construction(namespace, name, found, node)
    bases = [base.__name__ for base in found.__bases__ if base.__name__ in tessella.__all__]
    if bases:
        lines += [f"A kind of {', '.join(f'`{base}`' for base in bases)}.", ""]
    fields = field_comments(found, node)
    lines += render_docstring(ast.get_docstring(node), skip=tuple(fields))
    if fields:
        lines += ["", "Fields:", "", *(f"- {text}" for text in fields.values())]
    members = [line for member in node.body for line in render_member(member)]
    return [*lines, *(["", "Members:", "", *members] if members else [])]


def render_construction(namespace: str, name: str, found: type, node: ast.ClassDef) -> list[str]:
    """The functions that return a class, or how it is called; nothing for an error."""
    makers = functions_that_return(name) or BUILDERS.get(name, [])
    if makers:
        return [f"Returned by {', '.join(f'`{maker}`' for maker in makers)}.", ""]
    if issubclass(found, BaseException):
        return []
    return [*code_block(format_constructor(f"{namespace}.{name}", found, node)), ""]


def render_member(node: ast.stmt) -> list[str]:
    """One public method or property that is documented, as an entry of a list."""
    is_public = isinstance(node, Function) and not node.name.startswith("_")
    if not is_public or not ast.get_docstring(node):
        return []
    assert isinstance(node, Function)
    head = textwrap.indent(format_member(node), "  ").strip()
    body = textwrap.indent("\n".join(render_docstring(ast.get_docstring(node))), "  ").strip()
    gap = "\n\n  " if "\n" in head else ": "
    return f"- {head}{gap}{body}".splitlines()


def format_member(node: Function) -> str:
    """A property with its type, or a call; a long one in a block of code."""
    decorators = {ast.unparse(one).rpartition(".")[2] for one in node.decorator_list}
    if decorators & {"property", "cached_property"}:
        returned = f": {ast.unparse(node.returns)}" if node.returns else ""
        return f"`{node.name}{returned}`"
    signature = format_signature(node.name, node, skip_first="staticmethod" not in decorators)
    if "\n" not in signature:
        return f"`{signature}`"
    return "\n".join([f"`{node.name}`", "", *code_block(signature)])


@cache
def functions_that_return(name: str) -> list[str]:
    """The public functions whose result has this type."""
    names = []
    for name_of_function in tessella.__all__:
        value = getattr(tessella, name_of_function)
        if not inspect.isfunction(value):
            continue
        node = find_definition(value)
        assert isinstance(node, Function)
        returned = ast.unparse(node.returns) if node.returns else ""
        if name in re.findall(r"\w+", returned):
            names.append(name_of_function)
    return names if name not in CONSTRUCTED else []


# Returned by some functions, but mostly made by hand.
BUILDERS = {
    "MDP": [
        f"MDP.{name}" for name in ("staged", "from_rates", "from_step", "from_arrays", "from_pairs")
    ]
}
CONSTRUCTED = {"MDP", "Policy", "Problem", "Checkpoint"}


@cache
def parse(path: str) -> ast.Module:
    return ast.parse(Path(path).read_text(encoding="utf-8"))


def source_file(found: Any) -> str:
    return sys.modules[found.__module__].__file__ or ""


def find_definition(found: Any) -> ast.AST:
    """The statement that defines a class or a function."""
    tree = parse(source_file(found))
    named = [node for node in tree.body if getattr(node, "name", "") == found.__name__]
    return named[-1]  # after its overloads


def format_signature(name: str, node: Function, skip_first: bool) -> str:
    """A call with parameters, types and defaults, as in the source."""
    parameters = list(list_parameters(node))[1 if skip_first else 0 :]
    returned = f" -> {ast.unparse(node.returns)}" if node.returns else ""
    return join_signature(name, parameters, returned)


def join_signature(name: str, parameters: list[str], returned: str) -> str:
    short = f"{name}({', '.join(parameters)}){returned}"
    if len(short) <= SIGNATURE_MAX_CHARACTERS:
        return short
    inside = "".join(f"    {parameter},\n" for parameter in parameters)
    return f"{name}(\n{inside}){returned}"


def list_parameters(node: Function) -> Iterator[str]:
    arguments = node.args
    plain = [*arguments.posonlyargs, *arguments.args]
    defaults = [None] * (len(plain) - len(arguments.defaults)) + list(arguments.defaults)
    for argument, default in zip(plain, defaults, strict=True):
        yield format_parameter(argument, default)
    if arguments.vararg:
        yield "*" + format_parameter(arguments.vararg, None)
    elif arguments.kwonlyargs:
        yield "*"
    for argument, default in zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True):
        yield format_parameter(argument, default)
    if arguments.kwarg:
        yield "**" + format_parameter(arguments.kwarg, None)


def format_parameter(argument: ast.arg, default: ast.expr | None) -> str:
    typed = f": {ast.unparse(argument.annotation)}" if argument.annotation else ""
    given = ""
    if default is not None:
        given = f" = {ast.unparse(default)}" if typed else f"={ast.unparse(default)}"
    return f"{argument.arg}{typed}{given}"


def format_constructor(name: str, found: type, node: ast.ClassDef) -> str:
    """How a class is called: by its ``__init__``, or by the fields of a record."""
    initialisers = [
        one for one in node.body if isinstance(one, Function) and one.name == "__init__"
    ]
    if initialisers:
        return format_signature(name, initialisers[0], skip_first=True)
    fields = collect_fields(found)
    if not dataclasses.is_dataclass(found):
        return join_signature(name, list(map(format_field, fields.values())), "")
    parameters_given = inspect.signature(found).parameters.values()
    parameters = [format_field(fields[one.name]) for one in parameters_given]
    named = [one for one in parameters_given if one.kind is one.KEYWORD_ONLY]
    if named:
        parameters.insert(-len(named), "*")
    return join_signature(name, parameters, "")


def collect_fields(found: type) -> dict[str, ast.AnnAssign]:
    """The fields of a class and of those that it inherits from, by name."""
    fields = {}
    for base in reversed(found.__mro__):
        if base.__module__.startswith("tessella"):
            definition = find_definition(base)
            assert isinstance(definition, ast.ClassDef)
            fields |= {ast.unparse(one.target): one for one in list_fields(definition)}
    return fields


def list_fields(node: ast.ClassDef) -> Iterator[ast.AnnAssign]:
    for one in node.body:
        if not isinstance(one, ast.AnnAssign) or not isinstance(one.target, ast.Name):
            continue
        is_class_variable = "ClassVar" in ast.unparse(one.annotation)
        is_internal = one.target.id.startswith("_") or (
            one.value is not None and "init=False" in ast.unparse(one.value)
        )
        if not is_class_variable and not is_internal:
            yield one


def format_field(field: ast.AnnAssign) -> str:
    assert isinstance(field.target, ast.Name)
    text = f"{field.target.id}: {ast.unparse(field.annotation)}"
    default = "" if field.value is None else format_default(field.value)
    return f"{text} = {default}" if default else text


def format_default(value: ast.expr) -> str:
    """The default of a field, also where ``field(default=...)`` states it."""
    if not isinstance(value, ast.Call) or ast.unparse(value.func) != "field":
        return ast.unparse(value)
    given = {one.arg: ast.unparse(one.value) for one in value.keywords}
    return given.get("default", "..." if "default_factory" in given else "")


def field_comments(found: type, node: ast.ClassDef) -> dict[str, str]:
    """Fields that a comment in the same line explains, by name."""
    source = Path(source_file(found)).read_text(encoding="utf-8").splitlines()
    texts = {}
    for field in list_fields(node):
        line = source[(field.end_lineno or field.lineno) - 1]
        _, mark, comment = line.partition("  # ")
        if mark and not comment.startswith(("type:", "noqa")):
            assert isinstance(field.target, ast.Name)
            name = field.target.id
            texts[name] = f"`{name}: {ast.unparse(field.annotation)}`: {to_markdown(comment)}"
    return texts


def render_docstring(text: str | None, skip: tuple[str, ...] = ()) -> list[str]:
    """A docstring as Markdown: paragraphs, then lists of parameters, results and errors."""
    lines: list[str] = []
    for title, body in split_sections(text or ""):
        if title in LISTED:
            entries = [entry for entry in list_entries(body) if entry[0] not in skip]
            if entries:
                lines += ["", f"{LISTED[title]}:", ""]
            lines += [f"- `{name}`: {to_markdown(about)}" for name, about in entries]
        elif title in ("Example", "Examples"):
            lines += ["", "```python", *body.strip().splitlines(), "", "```"]
        elif title:
            lines += ["", f"{title}: {to_markdown(' '.join(body.split()))}"]
        else:
            lines += to_markdown(body).splitlines()
    return lines


def split_sections(text: str) -> Iterator[tuple[str, str]]:
    """``("", description)``, then each section with its title and its dedented body."""
    parts = re.split(rf"^({'|'.join(SECTIONS)}):\n", text, flags=re.MULTILINE)
    yield "", parts[0].strip()
    for title, body in zip(parts[1::2], parts[2::2], strict=True):
        indented = re.match(r"(?:(?: {4}.*)?\n?)*", body)
        assert indented is not None
        yield title, textwrap.dedent(indented[0]).strip("\n")
        rest = body[indented.end() :].strip()
        if rest:
            yield "", "\n" + rest


def list_entries(body: str) -> list[tuple[str, str]]:
    """``name: about`` entries whose continuation lines are indented."""
    entries = re.findall(r"^(\*{0,2}\w[\w, ]*): (.*(?:\n +.*)*)", body, re.MULTILINE)
    return [(name, " ".join(about.split())) for name, about in entries]


def to_markdown(text: str) -> str:
    """Restructured text as Markdown: single backticks, blocks of code by indentation."""
    text = text.replace("``", "`")
    text = re.sub(r"::$", ":", text, flags=re.MULTILINE)
    return re.sub(r"\|(?=\S)|(?<=\S)\|", r"\|", text) if "`" not in text and "|" in text else text


def code_block(text: str) -> list[str]:
    return ["```python", *text.splitlines(), "```"]


def main() -> None:
    for name, page in PAGES.items():
        (PAGES_FOLDER / f"{name}.md").write_text(render_page(page), encoding="utf-8")


if __name__ == "__main__":
    main()
