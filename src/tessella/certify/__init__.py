"""Certificates: what a policy loses against the optimum, exactly, and why.

Names load when first used, so that running the checker loads nothing of what it checks.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

_HOME = {
    "assess": ("certify",),
    "bounds": ("Bounds", "Localisation", "MarginRate", "SecondBest"),
    "certificate": ("Certificate",),
    "decomposition": ("Decomposition",),
    "enclosure": ("Band", "Enclosed"),
    "margins": ("MarginError",),
    "policies": ("as_policy",),
    "simulated": ("Estimate", "estimate"),
}
_WHERE = {name: home for home, names in _HOME.items() for name in names}

__all__ = [
    "Band",
    "Bounds",
    "Certificate",
    "Decomposition",
    "Enclosed",
    "Estimate",
    "Localisation",
    "MarginError",
    "MarginRate",
    "SecondBest",
    "as_policy",
    "certify",
    "estimate",
]

if TYPE_CHECKING:
    from tessella.certify.assess import certify
    from tessella.certify.bounds import Bounds, Localisation, MarginRate, SecondBest
    from tessella.certify.certificate import Certificate
    from tessella.certify.decomposition import Decomposition
    from tessella.certify.enclosure import Band, Enclosed
    from tessella.certify.margins import MarginError
    from tessella.certify.policies import as_policy
    from tessella.certify.simulated import Estimate, estimate


def __getattr__(name: str) -> Any:
    if name not in _WHERE:
        raise AttributeError(f"module 'tessella.certify' has no attribute {name!r}")
    return getattr(import_module(f"tessella.certify.{_WHERE[name]}"), name)


def __dir__() -> list[str]:
    return __all__
