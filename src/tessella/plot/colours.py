"""Colours for actions that stay apart for colour-blind readers and in grey print.

All colours of one map have different lightness L* (CIE 1976), in equal steps of at most 32, so that
lightness alone tells them apart and a line can be seen on any:

    L* = 116 Y^(1/3) - 16,   Y = 0.2126 R + 0.7152 G + 0.0722 B   (linear light, Y > 0.0089)

Quantities run through one ramp, the larger the darker. Quantities below and above 0 run from 0
through two ramps, the larger their absolute value the darker: a warm ramp below 0, a cool one
above, the one difference of hue that the common deficiencies leave. Names, which have no order,
alternate between the same two.
"""

from __future__ import annotations

import matplotlib
import numpy as np
from matplotlib.colors import ListedColormap
from numpy.typing import ArrayLike, NDArray

from tessella.tessellation import Tessellation

MAX_LIGHTNESS = 97.0  # CIE L*, 0 to 100: of the first action
MIN_LIGHTNESS = 32.0  # CIE L*: of the last action
MAX_LIGHTNESS_STEP = 32.0  # CIE L*: between one action and the next
QUANTITY_RAMP = "YlGnBu"
WARM_RAMP = "YlOrBr"
COOL_RAMP = "PuBu"


def action_colours(tessellation: Tessellation) -> ListedColormap:
    """One colour for each action, by action index."""
    n = len(tessellation.actions)
    levels = np.linspace(
        MAX_LIGHTNESS, max(MIN_LIGHTNESS, MAX_LIGHTNESS - MAX_LIGHTNESS_STEP * (n - 1)), n
    )
    quantities = tessellation.quantities
    if quantities is not None and quantities.min() < 0 < quantities.max():
        return ListedColormap(_pick_signed_shades(quantities, levels))
    if quantities is not None:
        return ListedColormap(pick_shades(QUANTITY_RAMP, levels)[tessellation.ranks])
    colours = pick_shades(WARM_RAMP, levels)
    colours[1::2] = pick_shades(COOL_RAMP, levels[1::2])
    return ListedColormap(colours)


def _pick_signed_shades(quantities: NDArray, levels: NDArray) -> NDArray[np.float64]:
    """(n, 3) colours: 0 is the lightest, and -q is the next darker level after q."""
    from_lightest = np.lexsort((quantities < 0, np.abs(quantities)))
    levels_by_action = np.empty(len(levels))
    levels_by_action[from_lightest] = levels
    warm = pick_shades(WARM_RAMP, levels_by_action)
    cool = pick_shades(COOL_RAMP, levels_by_action)
    return np.where(quantities[:, None] < 0, warm, cool)


def pick_shades(ramp: str, levels: NDArray) -> NDArray[np.float64]:
    """(n, 3) colours of a matplotlib colour map at the (n,) given lightnesses."""
    colours = matplotlib.colormaps[ramp](np.linspace(0, 1, 1024))[:, :3]
    light = compute_lightness(colours)
    order = np.argsort(light)
    return np.stack([np.interp(levels, light[order], c[order]) for c in colours.T], axis=-1)


def compute_lightness(colours: ArrayLike) -> NDArray[np.float64]:
    """(...) L* of (..., 3) sRGB colours in 0..1."""
    c = np.asarray(colours, dtype=float)
    linear = np.where(c <= 0.04045, c / 12.92, ((c + 0.055) / 1.055) ** 2.4)
    y = linear @ [0.2126, 0.7152, 0.0722]
    return np.where(y > 216 / 24389, 116 * np.cbrt(y) - 16, y * 24389 / 27)


def lighten(colours: ListedColormap, share: float = 0.55) -> ListedColormap:
    """The same colours, mixed with this share of white."""
    original = colours(np.arange(colours.N))[:, :3]
    return ListedColormap(share + (1 - share) * original)
