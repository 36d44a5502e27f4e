"""Policies as tessellations of their grid: cells, faces, diagnostics, structure, comparison."""

from tessella.tessellation.compare import Comparison, compare
from tessella.tessellation.dependence import (
    BaseStock,
    LevelBounds,
    Monotone,
    ReorderPoint,
    Threshold,
    base_stock,
    independent,
    monotone,
    reorder_point,
    threshold,
    through_sum,
)
from tessella.tessellation.evidence import Evidence
from tessella.tessellation.examine import Structure, examine
from tessella.tessellation.measure import (
    Geometry,
    SwitchingCurves,
    measure,
    outline,
    switching_curves,
)
from tessella.tessellation.regions import (
    LinearIndex,
    LinearScores,
    connected,
    convex,
    linear_index,
    linear_scores,
)
from tessella.tessellation.tessellate import Rim, Tessellation, section, sections, tessellate, trim
