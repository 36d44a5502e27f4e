"""Policies as tessellations of their grid: cells, faces, diagnostics, structure, comparison."""

from tessella.tessellation.compare import Comparison, compare
from tessella.tessellation.dependence import Independent, ThroughSum, independent, through_sum
from tessella.tessellation.evidence import Evidence
from tessella.tessellation.examine import Structure, examine
from tessella.tessellation.linear import LinearIndex, LinearScores, linear_index, linear_scores
from tessella.tessellation.measure import Geometry, measure
from tessella.tessellation.monotone import Monotone, monotone
from tessella.tessellation.orders import (
    BaseStock,
    LevelBounds,
    ReorderPoint,
    base_stock,
    reorder_point,
)
from tessella.tessellation.outline import outline
from tessella.tessellation.regions import Connected, Convex, connected, convex
from tessella.tessellation.subgrid import Rim, section, sections, trim
from tessella.tessellation.switching import SwitchingCurves, switching_curves
from tessella.tessellation.tessellate import Tessellation, tessellate
from tessella.tessellation.threshold import Threshold, threshold

__all__ = [
    "BaseStock",
    "Comparison",
    "Connected",
    "Convex",
    "Evidence",
    "Geometry",
    "Independent",
    "LevelBounds",
    "LinearIndex",
    "LinearScores",
    "Monotone",
    "ReorderPoint",
    "Rim",
    "Structure",
    "SwitchingCurves",
    "Tessellation",
    "Threshold",
    "ThroughSum",
    "base_stock",
    "compare",
    "connected",
    "convex",
    "examine",
    "independent",
    "linear_index",
    "linear_scores",
    "measure",
    "monotone",
    "outline",
    "reorder_point",
    "section",
    "sections",
    "switching_curves",
    "tessellate",
    "threshold",
    "through_sum",
    "trim",
]
