"""The interface of a method of solving: its step to the next point, and what the loop needs.

Each iteration (``iteration``) backs up a point v, b = T v with the greedy policy, and encloses the
optimum. A method only chooses the next point, so the bounds hold for any method; a poor one is
slow. To add one, derive from ``Method`` and write ``step``:

    @dataclass(frozen=True)
    class Relaxed(Method):
        by: float = 1.1

        def step(self, operators, state):
            return state.value + self.by * (state.backup - state.value)

``tessella.conformance.check_method`` tries it on models whose optimum is known.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from tessella.errors import ArgumentError, counted, is_number, require_whole
from tessella.mdp.model import MDP

if TYPE_CHECKING:
    from tessella.solvers.bounds import GreedyPolicy
    from tessella.solvers.iteration import IterationState
    from tessella.solvers.loop import Callback
    from tessella.solvers.operators import Operators
    from tessella.solvers.prepared_model import PreparedModel
    from tessella.solvers.result import Result


@dataclass(frozen=True)
class Method(ABC):
    """A method of solving. Hashable, so that it can steer compilation.

    Methods that differ only in tolerance and limit are equal: changing these compiles nothing.

    Args:
        tol: bound on max|V - V*|; None asks for about twelve digits of the largest
            value, or more where rounding leaves them.
        max_sweeps: the limit on iterations, each of which ends with one Bellman sweep.
    """

    tol: float | None = field(default=None, compare=False)
    max_sweeps: int = field(default=1_000_000, compare=False)

    safeguarded: ClassVar[bool] = False  # an iteration that widens the bound becomes a plain sweep
    solves_linear_systems: ClassVar[bool] = False  # a direct solve may help it when stalled
    requires_jax: ClassVar[bool] = True  # ``step`` may use JAX, so that models are compiled for it
    runs_on_one_device: ClassVar[bool] = False  # models are not distributed among devices
    follows_stages: ClassVar[bool] = False  # it cuts stages into blocks, and cannot use rows
    has_own_loop: ClassVar[bool] = False  # ``run`` solves a model, without ``step``
    uses_single_precision: ClassVar[bool] = False  # it holds a copy in single precision
    runs_in_phases: ClassVar[bool] = False  # other methods may take over: see ``mixed_precision``

    def __post_init__(self) -> None:
        validate_tol(self.tol)
        require_whole("max_sweeps", self.max_sweeps, 1)

    @abstractmethod
    def step(self, operators: Operators, state: IterationState) -> Any:
        """The next point, an array of the grid's shape.

        It runs compiled, on arrays of JAX; with ``requires_jax = False`` also on NumPy's, with what
        ``tessella.numerics`` offers for both.
        """

    def check_supports(self, mdp: MDP) -> None:
        """Raise an ArgumentError where the method does not solve models like ``mdp``."""
        return

    def supports(self, mdp: MDP) -> bool:
        """Whether the method solves models like ``mdp``, by ``check_supports``."""
        try:
            self.check_supports(mdp)
        except ArgumentError:
            return False
        return True

    def init(self, mdp: MDP) -> NDArray[np.float64] | None:
        """The first point; None for zeros."""
        return None

    def run(
        self, prepared: PreparedModel, callback: Callback | None, partial: bool
    ) -> tuple[Result, GreedyPolicy]:
        """(the optimum, its actions), of a method with a loop of its own."""
        raise NotImplementedError

    @property
    def states_per_block(self) -> int | None:
        """States of a block, where it sweeps blocks one after the other; None where it does not."""
        return None

    def tolerance(self, mdp: MDP) -> float | None:
        """The bound to be reached for this model; None for the default target."""
        return self.tol

    @property
    def limit(self) -> str:
        """The text for messages when no sweep is left."""
        return f"the limit of {counted(self.max_sweeps, 'sweep')} was reached"

    @property
    def name(self) -> str:
        return type(self).__name__


def require_method(method: object, tol: object) -> None:
    """Reject an object that is no method, and a tolerance next to a method."""
    if tol is not None:
        raise ArgumentError("tol is set in the method: ValueIteration(tol=...)")
    if not isinstance(method, Method):
        requirement = "method must be a method object such as ValueIteration(); a plan is plan=..."
        raise ArgumentError(requirement, value=f"got {method!r:.60}")


def validate_tol(tol: object) -> float | None:
    """``tol`` as a positive number, or None."""
    if tol is None:
        return None
    if not is_number(tol) or not tol > 0:  # type: ignore[operator]
        raise ArgumentError("tol must be a positive number, or None", value=f"got {tol!r:.60}")
    return float(tol)  # type: ignore[arg-type]


def require_between(settings: object, name: str, low: float, high: float) -> None:
    """Reject a field of ``settings`` that does not lie strictly between two numbers."""
    number = getattr(settings, name)
    if not is_number(number) or not low < number < high:
        raise ArgumentError(f"{name} must lie in ({low}, {high})", value=f"got {number!r}")
