"""Pictures: ``(axes, result) -> axes``, on axes of the caller. Nothing is computed here."""

from tessella.plot.colours import action_colours
from tessella.plot.frame import boundary_lines
from tessella.plot.landscape import margin_error, margin_map, value_map
from tessella.plot.policy import action_legend, error_map, legends, policy_map, small_multiples
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
