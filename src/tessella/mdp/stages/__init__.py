"""One period as a list of stages.

A stage acts on the state of its moment. Its functions are called with NumPy arrays of
what they name: axes of the grid, the action, the stage's own noise. They must be vectorised.

    Pay(reward)                 nothing moves
    Decide(axis, to)            x -> to(x, ...)             a map to the post-decision state
    Shift(axis, noise, by)      x -> edge(x + by(noise))    moves by a random amount
    Move(axis, matrix)          x -> x' with matrix[x, x']  perhaps given other axes
    Jump(noise, to)             any map of coordinates, action and noise

A model in continuous time is a list of events with rates instead (``Event``, ``MDP.from_rates``).
A file holds what the user writes and its operations (in NumPy, and compiled by JAX).
"""

from __future__ import annotations

from tessella.mdp.stages.events import Clock, Event
from tessella.mdp.stages.maps import Decide, Jump
from tessella.mdp.stages.move import Move
from tessella.mdp.stages.shift import Shift
from tessella.mdp.stages.stage import Noise, Pay, Stage, truncated_poisson
