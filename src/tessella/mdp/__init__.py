"""The model layer: states, actions, what happens in one period, and ways to write it down."""

from __future__ import annotations

from tessella.mdp.model import MDP
from tessella.mdp.policy import Policy
from tessella.mdp.stages import Decide, Jump, Move, Noise, Pay, Shift, truncated_poisson

__all__ = ["MDP", "Decide", "Jump", "Move", "Noise", "Pay", "Policy", "Shift", "truncated_poisson"]
