"""The search in one class of rules, and its outcome.

necessary conditions      additive costs that bound every rule within the loss target; the exact
                          solver of the class rules out sizes that cannot satisfy them, on fewer
                          axes where it is only a question of what is allowed
candidates                are generated, evaluated and selected (see ``candidates``)
branch and bound          of the class that has the smallest rule, if its solver is exact
"""

from __future__ import annotations

import math
from dataclasses import replace

from tessella.errors import counted
from tessella.rules.branch_and_bound import BranchAndBound, NecessaryCondition
from tessella.rules.candidates import generate_candidates, generate_imitations
from tessella.rules.rule import ClassOutcome, FrontierPoint
from tessella.rules.rule_class import Costs, RuleClass
from tessella.rules.search import ClassSearch, Search

CONTRADICTION_TEXT = "what seemed proven contradicts a rule that was found, so nothing is claimed"


def search_class(search: Search, rule_class: RuleClass, max_size: int) -> None:
    """Search for the smallest rule of a class, with at most that many numbers."""
    why_not = explain_inapplicable(search, rule_class)
    if why_not:
        search.record_outcome(ClassOutcome(rule_class.name, None, 0, why_not))
        return
    n_tried_before = search.n_tried
    class_search = ClassSearch(search, rule_class, max_size)
    if search.progress is not None:
        search.progress(_describe_progress(class_search))
    if search.wants_frontier:  # rules of all sizes first, and proofs with what time is left
        class_search.select(generate_imitations(class_search))
        class_search.select(generate_candidates(class_search))
    prove_size_lower_bound(class_search)
    if class_search.size_needed <= max_size and not search.wants_frontier:
        if search.evaluator.is_small:
            class_search.select(generate_imitations(class_search))
        class_search.select(generate_candidates(class_search))
    suggestion = "a larger `max_size`" if search.wants_frontier else "a larger loss"
    search.record_outcome(summarise(class_search, suggestion, n_tried_before))


def prove_size_lower_bound(class_search: ClassSearch) -> None:
    """Set ``size_needed`` to the largest size that the conditions rule out, plus one.

    The rules fitted on the way are evaluated. Once the time is up it is 0: a fit that may have been
    cut short rules out nothing.
    """
    rule_class = class_search.rule_class
    max_size = class_search.max_size
    bound = 0
    for condition in class_search.search.necessary_conditions:
        costs = _make_condition_costs(class_search, condition)
        cost_limit = condition.cost_limit
        if rule_class.is_infeasible(costs, cost_limit):
            class_search.size_needed = max_size + 1
            return
        if rule_class.why_not_exact(costs):
            continue
        fitted = rule_class.fit(costs, max_size, cost_limit)
        condition_bound = rule_class.size_lower_bound(costs, cost_limit, max_size, fitted)
        is_cut_short = class_search.search.is_class_time_up
        class_search.select(class_search.choose_candidates(fitted))
        if is_cut_short:
            return
        bound = max(bound, condition_bound)
    class_search.size_needed = bound


def _make_condition_costs(class_search: ClassSearch, condition: NecessaryCondition) -> Costs:
    """The costs of a condition, without axes that no rule of the class needs."""
    rule_class = class_search.rule_class
    costs = class_search.search.make_costs(condition.costs)
    if not (condition.is_zero_one and rule_class.closed_under_slicing):
        return costs
    fewer = costs.drop_irrelevant_axes()
    return costs if rule_class.why_not_applicable(fewer) else fewer


def raise_size_lower_bound(class_search: ClassSearch, max_nodes: float) -> None:
    """The same by branch and bound: sizes from ``size_needed`` on, until one is not ruled out.

    A rule that is found on the way is kept, and then its size is the one that is needed.
    """
    search = class_search.search
    if class_search.rule_class.why_not_exact(search.first_condition_costs):
        return
    if not BranchAndBound.is_applicable(search.evaluator, search.loss_target):
        return
    deadline = min(search.deadline, search.class_deadline)
    size_needed = class_search.size_needed
    solver = BranchAndBound(
        search.evaluator, search.loss_target, search.losses, size_needed, deadline, max_nodes
    )
    class_search.select(solver.generate_candidates(class_search.rule_class, class_search.max_size))
    class_search.size_needed = solver.size_needed


def tighten_outcome(search: Search, rule_class: RuleClass, best: FrontierPoint) -> None:
    """Prove more about the class of the smallest rule, by branch and bound."""
    index = [outcome.kind for outcome in search.outcomes].index(rule_class.name)
    previous = search.outcomes[index]
    if not 0 < previous.size_needed < best.size:
        return
    class_search = ClassSearch(search, rule_class, best.size - 1, previous.size_needed)
    raise_size_lower_bound(class_search, BranchAndBound.compute_node_budget(search.evaluator))
    smallest = class_search.best or best
    size_needed = min(class_search.size_needed, smallest.size)
    search.outcomes[index] = replace(previous, size=smallest.size, size_needed=size_needed)


def explain_inapplicable(search: Search, rule_class: RuleClass) -> str:
    """Why a class has no rules for this model; empty where it has."""
    costs = search.first_condition_costs
    why = f"{math.prod(costs.grid.lengths):,} combinations of values are too many"
    if rule_class.fits_listed_states or not costs.grid.is_listed:
        why = rule_class.why_not_applicable(costs)
    return f"the class does not apply: {why}" if why else ""


def summarise(class_search: ClassSearch, suggestion: str, n_tried_before: int = 0) -> ClassOutcome:
    """What became of a class; where nothing was found, ``suggestion`` may help."""
    search = class_search.search
    name = class_search.rule_class.name
    stopped = "stopped by the time limit" if search.is_class_time_up else ""
    sizes = [point.size for point in class_search.frontier_points]
    if search.wants_frontier and sizes:
        largest = f"up to {counted(max(sizes), 'parameter')}"
        return ClassOutcome(name, min(sizes), 0, "; ".join(filter(None, [largest, stopped])))
    costs = _make_condition_costs(class_search, search.necessary_conditions[0])
    remarks = [class_search.rule_class.why_not_exact(costs)]
    best = class_search.best
    size_needed = class_search.size_needed
    is_ruled_out = size_needed > class_search.max_size
    if best is not None and size_needed > best.size:
        size_needed = 0
        remarks.append(CONTRADICTION_TEXT)
    elif is_ruled_out or (best is None and size_needed > 1):
        remarks.append(_describe_ruled_out(class_search, costs))
    if best is not None:
        remarks.append(stopped)
        return ClassOutcome(name, best.size, size_needed, "; ".join(filter(None, remarks)))
    count = search.n_tried - n_tried_before
    if count and not is_ruled_out:
        rules = f"rules of up to {counted(class_search.max_size, 'parameter')}"
        remarks.append(f"{rules} tried: {count:,}")
    remarks += [stopped, f"{'more time or ' if stopped else ''}{suggestion} may allow one"]
    return ClassOutcome(name, None, size_needed, "; ".join(filter(None, remarks)))


def _describe_ruled_out(class_search: ClassSearch, costs: Costs) -> str:
    rule_class = class_search.rule_class
    search = class_search.search
    is_whole_class = rule_class.max_size(search.first_condition_costs) < class_search.size_needed
    cost_limit = search.necessary_conditions[0].cost_limit
    if is_whole_class or rule_class.is_infeasible(costs, cost_limit):
        return "no rule of this class meets the loss target"
    ruled_out = counted(class_search.size_needed - 1, "parameter")
    return f"none with {ruled_out} or fewer meets the loss target"


def _describe_progress(class_search: ClassSearch) -> str:
    best = class_search.search.find_smallest()
    text = "no rule within the limit yet"
    if best is not None:
        text = f"{best.kind} with {counted(best.size, 'parameter')} so far"
    n_evaluated = class_search.search.evaluator.n_evaluated
    if not n_evaluated:
        return f"Trying {class_search.rule_class.name}"
    return f"Trying {class_search.rule_class.name}: {text} ({n_evaluated:,} rules evaluated)"
