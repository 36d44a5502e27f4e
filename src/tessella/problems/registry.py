"""Problems by name: those of the package, and those that were registered.

A name with a colon, ``package.module:attribute``, is imported, so that a custom problem can be
named wherever a name is accepted: on the command line, and by the workers of a study. Custom
methods and measures are named in the same way.

Each of the paper's eleven problems is stated by what differs from the defaults of its family; its
label is the problem's name and the full name an alias.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

from tessella.errors import ArgumentError, TessellaError, find_closest, require_type
from tessella.mdp.model import MDP
from tessella.problems.admission import naor_admission, queue_admission, two_class_admission
from tessella.problems.energy import battery_arbitrage, hydro_reservoir
from tessella.problems.grid_worlds import frozen_lake, navigation
from tessella.problems.inventory import dual_sourcing, inventory, lost_sales
from tessella.problems.perishables import perishable, platelets, two_products
from tessella.problems.problem import Problem, suggest_name
from tessella.problems.repair import machine_replacement, maintenance, system_administrator
from tessella.problems.routing import parallel_queues, traffic_intersection, two_class_server
from tessella.problems.seat_revenue import seat_revenue
from tessella.problems.vertical_cas import vertical_cas


def _inv(label: str, full_name: str, about: str, **settings: Any) -> Problem:
    return inventory.variant(label, f"Inventory control, {about}", aliases=(full_name,), **settings)


def _que(label: str, full_name: str, about: str, **settings: Any) -> Problem:
    return queue_admission.variant(
        label, f"Admission to a queue, {about}", aliases=(full_name,), **settings
    )


BENCHMARK_PROBLEMS = (
    _inv("INV-Mix", "Inventory-Mixed-0.45", "mixed demand"),
    _inv("INV-Lin", "Inventory-Linear-0.45", "linear demand", nonlinearity="linear", strength=0.0),
    _inv(
        "INV-N0",
        "Inventory-Mixed-0.00",
        "mixed demand, no observation noise",
        observation_noise=0.0,
    ),
    _inv(
        "INV-NH",
        "Inventory-Mixed-0.80",
        "mixed demand, high observation noise",
        observation_noise=0.8,
    ),
    _inv("INV-Sin", "Inventory-Sinusoidal-0.45", "sinusoidal demand", nonlinearity="sinusoidal"),
    _inv("INV-Quad", "Inventory-Quadratic-0.45", "quadratic demand", nonlinearity="quadratic"),
    _inv(
        "INV-Hard", "Inventory-Hard-0.45", "a hard mix of demand", nonlinearity="hard", strength=1.2
    ),
    _que("QUE-Mix", "Queue-Mixed-0.25", "mixed arrivals"),
    _que("QUE-Lin", "Queue-Linear-0.25", "linear arrivals", nonlinearity="linear"),
    _que("QUE-Burst", "Queue-Bursty-0.25", "bursty arrivals", nonlinearity="bursty"),
    _que(
        "QUE-N0", "Queue-Mixed-0.00", "mixed arrivals, no observation noise", observation_noise=0.0
    ),
)
BENCHMARKS = {known.name: known for known in BENCHMARK_PROBLEMS}


def benchmark(label: str) -> MDP:
    """One of the paper's problems: ``benchmark("INV-Mix")``, or by its full name.

    Args:
        label: ``INV-Mix``, ``QUE-Lin`` and so on; ``BENCHMARKS`` lists them.

    Returns:
        The model.

    Raises:
        ArgumentError: there is no such benchmark.

    Example:
        >>> ts.benchmark("INV-Mix")
        MDP(INV-Mix: stock 33 x regime 25; 5 order actions, discount 0.95, staged)
    """
    known = find_registered(label)
    if known is None or known.name not in BENCHMARKS:
        hint = suggest_name(label, [*BENCHMARKS])
        raise ArgumentError(f"no benchmark is called {label!r}; {hint}")
    return known.build()


PUBLISHED_PROBLEMS = (
    perishable,
    platelets,
    two_products,
    lost_sales,
    dual_sourcing,
    machine_replacement,
    maintenance,
    naor_admission,
    two_class_admission,
    two_class_server,
    parallel_queues,
    hydro_reservoir,
    battery_arbitrage,
    traffic_intersection,
    system_administrator,
    navigation,
    frozen_lake,
    seat_revenue,
    vertical_cas,
)
PACKAGE_PROBLEMS = {
    known.name: known
    for known in (inventory, queue_admission, *BENCHMARKS.values(), *PUBLISHED_PROBLEMS)
}

_registered: dict[str, Problem] = {}


def all_problems() -> tuple[Problem, ...]:
    """Every problem that has a name here, the package's own first.

    Returns:
        The records, registered ones last.

    Example:
        >>> [problem.name for problem in ts.all_problems()][:2]
        ['inventory', 'queue_admission']
    """
    return (*PACKAGE_PROBLEMS.values(), *_registered.values())


def find_registered(name: str) -> Problem | None:
    """The problem that has this name or alias here, if one has; nothing is imported.

    Capitals do not matter where one problem alone is meant.
    """
    names = [(known, (known.name, *known.aliases)) for known in all_problems()]
    for known, own_names in names:
        if name in own_names:
            return known
    matches = [known for known, own in names if name.lower() in map(str.lower, own)]
    return matches[0] if len(matches) == 1 else None


def register(problem: Problem) -> Problem:
    """Make ``problem`` known by its name; registered again, the later one counts.

    The names of the package's own problems stay theirs.

    Args:
        problem: the record.

    Returns:
        The same record.

    Raises:
        ArgumentError: the name is one of the package's own.

    Example:
        >>> busy = ts.queue_admission.variant("busy", "A busy queue", arrival_base=6.0)
        >>> ts.register(busy).name
        'busy'
    """
    require_type("register", problem, Problem)
    taken = {name for known in PACKAGE_PROBLEMS.values() for name in (known.name, *known.aliases)}
    own_names = {problem.name, *problem.aliases}
    if problem is not PACKAGE_PROBLEMS.get(problem.name) and own_names & taken:
        requirement = "a problem of the package keeps its name"
        raise ArgumentError(requirement, location=repr(min(own_names & taken)), value="is taken")
    if problem.name not in PACKAGE_PROBLEMS:
        _registered[problem.name] = problem
    return problem


def problem(name: str) -> Problem:
    """The problem called ``name``, or what ``package.module:attribute`` leads to.

    Args:
        name: of a problem, in capitals or not; ``tessella list`` prints them all.

    Returns:
        The record; ``build(**settings)`` makes its model.

    Raises:
        ArgumentError: there is no such problem.

    Example:
        >>> ts.problem("perishable").build(max_order=5)
        MDP(perishable: life2 6 x life1 6; 6 order actions, discount 0.99, costs, staged)
    """
    require_type("problem", name, str, "name")
    found = import_object(name, "problem") if ":" in name else find_registered(name)
    if isinstance(found, Problem):
        return found
    if ":" in name:
        value = f"is {type(found).__name__}"
        raise ArgumentError("a problem is a tessella.Problem", location=repr(name), value=value)
    closest = find_closest(name, [known.name for known in all_problems()])
    hint = "" if closest is None else f"did you mean {closest!r}? "
    raise ArgumentError(f"no problem is called {name!r}; {hint}`tessella list` names them all")


def import_object(path: str, noun: str, error_class: type[TessellaError] = ArgumentError) -> Any:
    """The ``noun`` at ``path``, ``package.module:attribute``, or an error of ``error_class``."""
    module, _, attribute = path.partition(":")
    try:
        return getattr(import_module(module), attribute)
    except Exception as error:  # a module may raise anything when it is imported
        reason = f"{type(error).__name__}: {error}"
        raise error_class(f"no {noun} is called {path!r}: {reason}") from error
