"""Policies as tessellations of their grid: cells, faces, diagnostics, structure, comparison."""

from tessella.tessellation.boundary import SwitchingCurves, outline, switching_curves
from tessella.tessellation.compare import Comparison, compare
from tessella.tessellation.dependence import (
    BaseStock,
    Independent,
    LevelBounds,
    Monotone,
    ReorderPoint,
    Threshold,
    ThroughSum,
    base_stock,
    independent,
    monotone,
    reorder_point,
    threshold,
    through_sum,
)
from tessella.tessellation.evidence import Evidence
from tessella.tessellation.examine import Structure, examine
from tessella.tessellation.measure import Geometry, measure
from tessella.tessellation.regions import (
    Connected,
    Convex,
    LinearIndex,
    LinearScores,
    connected,
    convex,
    linear_index,
    linear_scores,
)
from tessella.tessellation.tessellate import Rim, Tessellation, section, sections, tessellate, trim

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
