"""Pictures: ``(axes, result) -> axes``, on axes of the caller. Nothing is computed here."""

from tessella.plot.frame import action_colours, boundary_lines
from tessella.plot.maps import (
    difference_map,
    error_map,
    frontier_plot,
    margin_error,
    margin_map,
    policy_map,
    rule_map,
    rule_plot,
    small_multiples,
    tradeoff_plot,
    value_map,
)
