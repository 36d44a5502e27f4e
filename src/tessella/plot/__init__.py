"""Pictures: ``(axes, result) -> axes``, on axes that the caller made. Nothing is computed here."""

from tessella.plot.colours import action_colours
from tessella.plot.errors import error_map
from tessella.plot.frame import boundary_lines
from tessella.plot.landscape import margin_map, value_map
from tessella.plot.margin_error import margin_error
from tessella.plot.multiples import legends, small_multiples
from tessella.plot.policy import action_legend, policy_map
from tessella.plot.rules import difference_map, frontier_plot, rule_map, rule_plot

__all__ = [
    "action_colours",
    "action_legend",
    "boundary_lines",
    "difference_map",
    "error_map",
    "frontier_plot",
    "legends",
    "margin_error",
    "margin_map",
    "policy_map",
    "rule_map",
    "rule_plot",
    "small_multiples",
    "value_map",
]
