"""Pictures: ``(axes, result) -> axes``, on axes of the caller. Nothing is computed here."""

from tessella.plot.frame import action_colours, boundary_lines
from tessella.plot.maps import (
    action_legend,
    error_map,
    legends,
    margin_error,
    margin_map,
    policy_map,
    small_multiples,
    value_map,
)
from tessella.plot.rules import difference_map, frontier_plot, rule_map, rule_plot
