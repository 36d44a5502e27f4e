"""The model: a finite Markov decision process on a grid, and what its values mean.

maximise  E[ sum_t discount^t r(s_t, a_t) ],   s_{t+1} ~ P(. | s_t, a_t),  a_t feasible in s_t.

Its fingerprint is a hash of everything that decides its numbers. Classes enter it by the names in
``HASHED_NAMES``, or by their own: saved files and rules keep it.
"""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tessella.criteria import as_criterion, choose_criterion
from tessella.criteria.criterion import Criterion
from tessella.criteria.discounted import Discounted
from tessella.criteria.finite_horizon import FiniteHorizon
from tessella.criteria.total import Total
from tessella.errors import (
    ArgumentError,
    FileError,
    ModelError,
    PolicyError,
    is_number,
    raise_for_first,
)
from tessella.files import wrap_read_errors
from tessella.grid import StateGrid
from tessella.mdp.actions import Actions, component_names
from tessella.mdp.as_policy import Labels, as_policy
from tessella.mdp.checks import check_observation_noise
from tessella.mdp.dynamics import REWARD, Dynamics, ModelParts, SourceModel
from tessella.mdp.exogenous import Exogenous, find_exogenous
from tessella.mdp.finite_horizon import FiniteHorizonDynamics, build_horizon, repeat_over_horizon
from tessella.mdp.measures import (
    CONSTANT,
    Constraint,
    MeasureFormula,
    read_constraints,
    read_measure,
)
from tessella.mdp.policy import Policy
from tessella.mdp.stages.events import Clock, Event, uniformise
from tessella.mdp.stages.stage import Function, Noise, Stage, subtract_costs
from tessella.mdp.stages.staged import Staged, as_stages
from tessella.mdp.start import Start, start_distribution
from tessella.mdp.state_action_space import (
    Feasible,
    build_feasible_mask,
    make_state_action_space,
    require_feasible_actions,
)
from tessella.mdp.tabular.pairs import (
    ArrayLayout,
    DenseModel,
    PairModel,
    SparseModel,
    select_feasible_rows,
)
from tessella.support.sense import Sense, sense_of

HASHED_NAMES = {
    "BuiltStage": "Compiled",
    "StateActionSpace": "Scope",
    "FiniteHorizonDynamics": "Timed",
    "ModelRounding": "Built",
    "PeriodReward": "Paid",
}
SHARE_MAX_PAIRS = 20_000_000  # states times actions up to which ratios are examined
SHARE_TOLERANCE = 1e-12  # of the largest amount: rounding


@dataclass(frozen=True, eq=False)
class MDP:
    """A Markov decision process.

    Attributes:
        grid: the states.
        actions: names or values of the actions, or combinations of components.
        criterion: what a value means: ``Discounted(0.95)``. A number is a discount.
        dynamics: transition law and rewards.
        feasible: (S, A) mask, or None when every action is feasible everywhere.
        action_name: what an action is called: ``order``.
        name: what the model is called.
        parameters: the numbers it was built from, kept with saved results.
        start: (S,) distribution of the first state, or None for a uniform one.
        observation_noise: standard deviation of observed coordinates, in grid steps, where a
            sample is drawn without another; it is no part of the model's numbers. One number, or
            one for each axis.
        clock: the relation of periods to time, for a model built from rates; else None.
        minimise: whether it was given in costs. Rewards and values are negated costs; printed
            numbers are costs, and so is ``cost`` of a solution.
        source: the model of which these are the tables, where a file says so.
        measures: what its policies are measured by, in addition to the objective: every count of
            its stages, and what ``with_measures`` adds. They are no part of its numbers.
        constraints: bounds on measures that its file states. ``solve`` applies them if asked:
            ``solve(mdp, subject_to=mdp.constraints)``.
    """

    grid: StateGrid
    actions: tuple
    criterion: Criterion
    dynamics: Dynamics
    feasible: NDArray[np.bool_] | None = None
    action_name: str = "action"
    name: str = ""
    parameters: Mapping[str, Any] = field(default_factory=dict)
    start: NDArray[np.float64] | None = None
    observation_noise: float | Sequence[float] = 0.0
    clock: Clock | None = None
    minimise: bool = False
    source: SourceModel | None = None
    measures: Mapping[str, MeasureFormula] = field(default_factory=dict)
    constraints: Mapping[str, Constraint] = field(default_factory=dict)

    def __post_init__(self) -> None:
        counted = {
            name: MeasureFormula({name: 1.0}, text=name) for name in sorted(self.dynamics.counts)
        }
        object.__setattr__(self, "measures", {**counted, **self.measures})
        if self.constraints:
            read_constraints(self.measures, self.constraints)
        object.__setattr__(self, "criterion", as_criterion(self.criterion))
        check_observation_noise(self.observation_noise, self.grid, ModelError)
        if self.feasible is not None:
            require_feasible_actions(self.grid, self.feasible)
            object.__setattr__(self, "feasible", None if self.feasible.all() else self.feasible)

    @staticmethod
    def staged(
        grid: StateGrid | Mapping[str, Sequence],
        actions: Actions,
        discount: float | Criterion | None = None,
        stages: Sequence[Stage] = (),
        *,
        criterion: Criterion | None = None,
        feasible: Feasible = None,
        scratch: Mapping[str, Sequence] | None = None,
        action_name: str = "action",
        name: str = "",
        parameters: Mapping[str, Any] | None = None,
    ) -> MDP:
        """A model given as the events of one period; see ``tessella.mdp.stages``.

        Values are discounted by ``discount``, or mean what ``criterion`` says: ``ts.Average()``.
        ``feasible`` is a mask (grid shape + actions) or a function of axes and action. Where an
        action is infeasible, the functions of the first stages may return anything.
        ``actions={"a": range(3), "b": range(5)}`` makes an action of every combination; functions
        may name the components. ``scratch`` axes exist within a period only: it opens them at their
        first values and forgets them at its end.

        Returns:
            The model.

        Raises:
            ModelError: a stage leaves the grid, probabilities do not sum to 1, or a payment is not
                finite; the message names the first state where it happens.

        Example:
            >>> demand = ts.Noise("demand", range(9), ts.truncated_poisson(3.0, 8))
            >>> mdp = ts.MDP.staged(
            ...     {"stock": range(11)}, actions=(0, 5), discount=0.95, action_name="order",
            ...     stages=[
            ...         ts.Decide("stock", to=lambda stock, order: np.minimum(stock + order, 10),
            ...                   costs=lambda order: 2.0 * order),
            ...         ts.Shift("stock", demand, by=lambda demand: -demand,
            ...                  pays=lambda stock, demand: 5.0 * np.minimum(stock, demand)),
            ...     ],
            ... )
            >>> ts.solve(mdp).policy.decisions
            array([5, 5, 5, 5, 5, 0, 0, 0, 0, 0, 0])
        """
        space = make_state_action_space(grid, actions, action_name)
        stages = as_stages(stages)
        criterion = choose_criterion(discount, criterion)
        costs = _minimises_cost(stages)
        if isinstance(criterion, FiniteHorizon):
            parts = build_horizon(
                space, _final_as_reward(criterion, costs), stages, feasible, scratch
            )
        else:
            mask = None if feasible is None else build_feasible_mask(space, feasible)
            parts = ModelParts(space, Staged.build(space, stages, mask, scratch), mask)
        return assemble_model(parts, criterion, name, parameters, costs)

    @staticmethod
    def from_rates(
        grid: StateGrid | Mapping[str, Sequence],
        actions: Sequence,
        events: Sequence[Event],
        interest: float | Criterion,
        *,
        pays_rate: float | Function | None = None,
        costs_rate: float | Function | None = None,
        counts_rate: Mapping[str, float | Function] | None = None,
        clock: float | None = None,
        feasible: Feasible = None,
        action_name: str = "action",
        name: str = "",
        parameters: Mapping[str, Any] | None = None,
    ) -> MDP:
        """A model in continuous time, converted to periods; see ``tessella.mdp.stages.events``.

        Args:
            events: what happens at which rate: ``Event("arrival", 2.0, to=...)``.
            interest: per unit of time, above 0: values are those in continuous time. A criterion
                other than a discount is taken as it is, with rewards per period; ``mdp.clock``
                reads them per unit of time.
            pays_rate: what is paid per unit of time, a number or a function of axes and action.
            costs_rate: what it costs per unit of time, likewise.
            counts_rate: what measures count per unit of time, likewise, by name.
            clock: periods per unit of time, at least the largest total rate, which it is if not
                given. Values under an interest rate do not depend on it.
            feasible: a mask (grid shape + actions) or a function of axes and action.

        Returns:
            The model; its ``clock`` converts rewards per period to rewards per unit of time.

        Raises:
            ModelError: an event leaves the grid, or a rate is negative.

        Example:
            >>> mdp = ts.MDP.from_rates(
            ...     {"queue": range(21)}, actions=(1.0, 2.0), action_name="speed",
            ...     events=[
            ...         ts.Event("arrival", lambda queue: 0.8 * (queue < 20),
            ...                  to=lambda queue: {"queue": queue + 1}),
            ...         ts.Event("service", lambda queue, speed: speed * (queue > 0),
            ...                  to=lambda queue: {"queue": queue - 1}),
            ...     ],
            ...     costs_rate=lambda queue, speed: queue + 2.0 * speed, interest=ts.Average(),
            ... )
            >>> ts.solve(mdp).policy.decisions[:4]
            array([1., 1., 2., 2.])
        """
        space = make_state_action_space(grid, actions, action_name)
        mask = None if feasible is None else build_feasible_mask(space, feasible)
        net_rate = subtract_costs(pays_rate, costs_rate)
        parts, criterion, used_clock = uniformise(
            space, events, interest, net_rate, counts_rate, clock, mask
        )
        minimise = _minimises_cost([*events, Event("time", 1.0, pays=pays_rate, costs=costs_rate)])
        return replace(
            assemble_model(parts, criterion, name, parameters, minimise), clock=used_clock
        )

    @staticmethod
    def from_arrays(
        transition: Any,
        reward: Any,
        discount: float | Criterion | None = None,
        *,
        criterion: Criterion | None = None,
        layout: ArrayLayout = "ASS",
        grid: StateGrid | Mapping[str, Sequence] | None = None,
        actions: Actions | None = None,
        feasible: Feasible = None,
        minimise: bool = False,
        action_name: str = "action",
        name: str = "",
        parameters: Mapping[str, Any] | None = None,
    ) -> MDP:
        """A model from arrays.

        Args:
            transition: (A, S, S) with ``layout="ASS"`` (pymdptoolbox), (S, A, S) with ``"SAS"``
                (QuantEcon), or, with ``"ASS"``, a list of A sparse (S, S) matrices of any format.
            reward: (S,), (S, A), or by transition in the layout of ``transition``.
            feasible: (S, A) mask, or a function of axes and action. Without it, what pays -inf (by
                transition: on every way that it can go) is infeasible.
            minimise: ``reward`` holds costs; what costs inf is infeasible.

        Returns:
            The model, as a table.

        Raises:
            ModelError: shapes do not fit, rows do not sum to 1, or a number is not finite.

        Example:
            >>> keep, replace = [[0.7, 0.3], [0.0, 1.0]], [[1.0, 0.0], [1.0, 0.0]]
            >>> mdp = ts.MDP.from_arrays([keep, replace], [[4.0, 0.0], [1.0, 0.0]], 0.9,
            ...                          grid={"machine": ["new", "worn"]},
            ...                          actions=("keep", "replace"))
            >>> ts.solve(mdp).policy.decisions.tolist()
            ['keep', 'replace']
        """
        from tessella.mdp.tabular.arrays import from_arrays

        parts = from_arrays(
            transition, reward, layout, grid, actions, feasible, action_name, sense_of(minimise)
        )
        criterion = choose_criterion(discount, criterion)
        return assemble_model(parts, criterion, name, parameters, minimise)

    @staticmethod
    def from_pairs(
        states: ArrayLike,
        choices: ArrayLike,
        transition: Any,
        reward: ArrayLike,
        discount: float | Criterion | None = None,
        *,
        criterion: Criterion | None = None,
        grid: StateGrid | Mapping[str, Sequence] | None = None,
        actions: Actions | None = None,
        minimise: bool = False,
        action_name: str = "action",
        name: str = "",
        parameters: Mapping[str, Any] | None = None,
    ) -> MDP:
        """A model from its L feasible (state, action) pairs, as QuantEcon lists them.

        Args:
            states: (L,) state index of each pair.
            choices: (L,) action index of each pair; pairs that are not listed are infeasible.
            transition: (L, S), dense or sparse.
            reward: (L,); a pair that pays -inf is infeasible too.
            minimise: ``reward`` holds costs.

        Returns:
            The model, as a table.

        Raises:
            ModelError: shapes do not fit, rows do not sum to 1, or a state has no feasible pair.

        Example:
            >>> mdp = ts.MDP.from_pairs([0, 0, 1], [0, 1, 0], [[0.5, 0.5], [0.0, 1.0], [0.0, 1.0]],
            ...                         [5.0, 10.0, -1.0], 0.95)
            >>> ts.solve(mdp).value.round(4)
            array([ -8.5714, -20.    ])
        """
        from tessella.mdp.tabular.arrays import from_pairs

        sense = sense_of(minimise)
        parts = from_pairs(states, choices, transition, reward, grid, actions, action_name, sense)
        criterion = choose_criterion(discount, criterion)
        return assemble_model(parts, criterion, name, parameters, minimise)

    @staticmethod
    def from_step(
        step: Callable[..., tuple],
        grid: StateGrid | Mapping[str, Sequence],
        actions: Actions,
        discount: float | Criterion | None = None,
        noise: Sequence[Noise] | Noise = (),
        *,
        criterion: Criterion | None = None,
        feasible: Feasible = None,
        minimise: bool = False,
        action_name: str = "action",
        name: str = "",
        parameters: Mapping[str, Any] | None = None,
    ) -> MDP:
        """A model from ``step(...) -> (next coordinates by name, reward)``.

        ``step`` is vectorised and names what it needs: axes, the action, the noises. Several noises
        are independent of one another given state and action. With ``minimise`` it returns costs.
        A third result, ``{"lost": ...}``, holds what measures count.

        Returns:
            The model, as a table.

        Raises:
            ModelError: a step leaves the grid, or the table would need more than 8 GiB.

        Example:
            >>> def step(stock, order, demand):
            ...     left = np.maximum(np.minimum(stock + order, 5) - demand, 0)
            ...     return {"stock": left}, 3.0 * demand - order
            ...
            >>> demand = ts.Noise("demand", range(3), [0.3, 0.4, 0.3])
            >>> grid = {"stock": range(6)}
            >>> ts.MDP.from_step(step, grid, (0, 2), 0.9, demand, action_name="order")
            MDP(stock 6; 2 order actions, discount 0.9, tabular)
        """
        from tessella.mdp.tabular.outcomes import from_step

        space = make_state_action_space(grid, actions, action_name)
        parts = from_step(step, space, noise, feasible, sense_of(minimise).sign)
        criterion = choose_criterion(discount, criterion)
        return assemble_model(parts, criterion, name, parameters, minimise)

    @staticmethod
    def from_gymnasium(
        env: Any,
        discount: float | Criterion | None = None,
        *,
        criterion: Criterion | None = None,
        name: str = "",
    ) -> MDP:
        """A model from a Gymnasium toy-text environment, which lists its transitions in ``P``."""
        from tessella.mdp.tabular.outcomes import from_gymnasium

        parts, own_name, start = from_gymnasium(env)
        mdp = assemble_model(parts, Total(), name or own_name)
        criterion = choose_criterion(discount, criterion)
        return mdp.with_start(start).with_criterion(criterion)

    @staticmethod
    def from_drn(
        path: str | Path,
        discount: float | Criterion | None = None,
        *,
        criterion: Criterion | None = None,
        reward: str | None = None,
        goal: str | None = None,
        without_actions: Sequence[str] = (),
        minimise: bool = False,
        name: str = "",
    ) -> MDP:
        """A model from a file in Storm's explicit format DRN, plain or compressed by gzip.

        Variables that vary become axes; only the states that initial ones lead to exist. Each label
        and each further reward is counted, so that measures can use it.

        Args:
            reward: which of the file's rewards is paid; if not given, one called reward or cost, or
                the first.
            goal: the label of states in which the process ends; nothing is paid or counted there.
            without_actions: names of actions that are left out.
            minimise: ``reward`` holds costs.
        """
        from tessella.mdp.tabular.explicit import read_drn
        from tessella.mdp.tabular.umb import UMB_SUFFIX, read_umb

        read = read_umb if Path(path).suffix == UMB_SUFFIX else read_drn
        source = read(path).drop_actions(without_actions)
        parts, counts = (source if goal is None else source.end_in(goal)).build(reward, minimise)
        own_name = Path(path).name.partition(".")[0]
        mdp = assemble_model(parts, Total(), name or own_name, None, minimise)
        criterion = choose_criterion(discount, criterion)
        return mdp.with_measures(**counts).with_criterion(criterion)

    @staticmethod
    def from_umb(path: str | Path, discount: float | Criterion | None = None, **options) -> MDP:
        """A model from a UMB file, with the options of ``from_drn``."""
        return MDP.from_drn(path, discount, **options)

    def to_umb(self, path: str | Path) -> None:
        """Write a UMB file, which model checkers read: states, actions, rewards or costs, counts.

        Counts, also those of labels in a file that was read, become rewards.
        What values mean, a discount or another criterion, is no part of it.
        """
        from tessella.mdp.tabular.umb import write_umb

        write_umb(self, path)

    def to_gymnasium(self, *, start: Start = None) -> Any:
        """A Gymnasium environment with this model's states and actions (extra ``gym``).

        ``start`` reads as in ``with_start``; None for the model's own.
        """
        from tessella.mdp.tabular.outcomes import to_gymnasium

        return to_gymnasium(self, start)

    def to_sparse(self) -> SparseModel:
        """Sparse arrays, whatever the dynamics; meant for small models and cross-checks."""
        import scipy.sparse as sp

        mask = self.feasible_mask
        matrices = self.dynamics.to_sparse()
        if self.feasible is not None:
            kept = [sp.diags_array(column.astype(float)) for column in mask.T]
            matrices = [sp.csr_array(keep @ m) for keep, m in zip(kept, matrices, strict=True)]
            for matrix in matrices:
                matrix.eliminate_zeros()
        return SparseModel(matrices, np.where(mask, self.reward, -np.inf), mask, self.discount)

    def to_arrays(self, layout: ArrayLayout = "ASS") -> DenseModel:
        """Dense arrays, as ``MDP.from_arrays`` reads them."""
        sparse = self.to_sparse()
        axis = 0 if layout == "ASS" else 1
        dense = np.stack([matrix.toarray() for matrix in sparse.transition], axis=axis)
        return DenseModel(dense, sparse.reward, sparse.feasible, sparse.discount)

    def to_pairs(self) -> PairModel:
        """The feasible (state, action) pairs, as ``MDP.from_pairs`` reads them."""
        sparse = self.to_sparse()
        pairs = select_feasible_rows(sparse.transition, sparse.feasible)
        return PairModel(*pairs, sparse.reward[sparse.feasible], sparse.discount)

    @property
    def n_states(self) -> int:
        return self.grid.size

    @property
    def n_actions(self) -> int:
        return len(self.actions)

    @property
    def reward(self) -> NDArray[np.float64]:
        """(S, A) expected reward of one period."""
        return self.dynamics.expected_reward()

    @property
    def feasible_mask(self) -> NDArray[np.bool_]:
        """(S, A)."""
        if self.feasible is None:
            return np.ones((self.n_states, self.n_actions), dtype=bool)
        return self.feasible

    @cached_property
    def exogenous(self) -> Exogenous | None:
        """The axes whose joint next value depends on themselves alone, and how they move.

        None where there are none, as with a horizon.
        """
        return find_exogenous(self.dynamics, self.feasible)

    def policy(self, source: Any, name: str = "", labels: Labels | None = None) -> Policy:
        """Convert ``source`` to a feasible policy of this model: see ``tessella.as_policy``.

        A policy is taken as it is, with its own name unless another is given; one of another grid
        or of other actions raises an error.

        Example:
            >>> mdp = ts.benchmark("QUE-Lin")
            >>> mdp.policy(lambda queue: 1 * (queue < 20), name="at most 20")
            Policy(at most 20: 651 states, 2 actions, ...)
        """
        policy = as_policy(self, source, labels)
        return policy.with_name(name) if name else policy

    @property
    def sense(self) -> Sense:
        """Whether it is stated in rewards or costs: how numbers are shown, and their names."""
        return sense_of(self.minimise)

    def check_feasible(self, policy: Policy) -> None:
        """Raise an error for a policy that takes an infeasible action."""
        if self.feasible is None:
            return
        chosen = [(a, self.feasible[s, a]) for s, a in policy.iter_chunks()]
        actions, is_feasible = map(np.concatenate, zip(*chosen, strict=True))
        raise_for_first(
            "a policy must take feasible actions",
            ~is_feasible,
            lambda state: self.describe(state, int(actions[state])),
            lambda _: "is not feasible",
            "states",
            error=PolicyError,
        )

    def describe(self, state: int, action: int) -> str:
        """``stock=3, regime=0, order=8``."""
        return self.dynamics.space.describe_pair(state, action)

    @property
    def discount(self) -> float:
        """What multiplies the value of the next state."""
        return self.criterion.discount

    def with_discount(self, discount: float) -> MDP:
        """The same model with another discount."""
        return self.with_criterion(Discounted(discount))

    def with_criterion(self, criterion: float | Criterion) -> MDP:
        """The same model with another criterion: a number is a discount."""
        if self.clock is not None:  # its rewards were computed for its interest rate
            raise ModelError("another interest rate needs a new model from rates")
        if self.criterion.rewrites_model:  # for example, time is already an axis
            kind = "finite horizon" if self.criterion.has_horizon else str(self.criterion)
            raise ModelError(f"a model with a {kind} must be built again for another criterion")
        new_criterion = as_criterion(criterion)
        if not new_criterion.rewrites_model:
            return replace(self, criterion=new_criterion)
        components = ModelParts(self.dynamics.space, self.dynamics, self.feasible, self.start)
        noise = np.broadcast_to(self.observation_noise, self.grid.ndim)
        # Time is known exactly, without observation noise.
        time_noise = [0.0] if new_criterion.has_horizon else []
        noise_by_axis = (*time_noise, *noise.tolist()) if noise.any() else 0.0
        mdp = assemble_model(components, new_criterion, self.name, self.parameters, self.minimise)
        return replace(
            mdp,
            observation_noise=noise_by_axis,
            measures=self.measures,
            constraints=self.constraints,
        )

    def with_start(self, start: Start) -> MDP:
        """The same model with another start: see ``tessella.mdp.start``; None for a uniform one."""
        return replace(self, start=None if start is None else start_distribution(self, start))

    def with_measures(self, **measures: str | ArrayLike | Callable[..., ArrayLike]) -> MDP:
        """The same model with more measures.

        Args:
            measures: expressions of counts, ``fill_rate="1 - lost / demand"``; for a table also new
                counts: expected amounts (S,), (S, A), or a function of axes and action.
        """
        from tessella.mdp.tabular.arrays import count_in_table

        dynamics = self.dynamics
        for name, given in measures.items():
            if not isinstance(given, str):
                dynamics = count_in_table(dynamics, self.feasible_mask, name, given)
        parsed = {
            name: read_measure(name, text, dynamics.counts)
            for name, text in measures.items()
            if isinstance(text, str)
        }
        return replace(self, dynamics=dynamics, measures={**self.measures, **parsed})

    def is_share(self, name: str) -> bool:
        """Whether a measure is a ratio that lies between 0 and 1 under every policy.

        It is one if for every state and action its numerator is at least 0 and at most its
        denominator. Larger models are not examined.
        """
        measure = self.measures[name]
        has_number = CONSTANT in {*measure.numerator, *measure.denominator}
        is_large = self.n_states * self.n_actions > SHARE_MAX_PAIRS
        if not measure.is_ratio or has_number or is_large:
            return False
        numerator, denominator = (
            self.with_objective(weights).reward[self.feasible_mask]
            for weights in (measure.numerator, measure.denominator)
        )
        tolerance = SHARE_TOLERANCE * float(np.abs(denominator).max())
        is_at_most = (numerator <= denominator + tolerance).all()
        return bool((numerator >= -tolerance).all() and is_at_most)

    def with_objective(self, weights: Mapping[str, float], *, minimise: bool = False) -> MDP:
        """The same model with a weighted sum of its reward and counts as its reward.

        ``{"reward": 1.0, "lost": -5.0}`` pays what the model pays less 5 for each unit lost. A
        number among weights, under the empty name, changes no policy and is left out.
        """
        amounts = sorted({REWARD, *self.dynamics.counts})
        for name in set(weights) - {*amounts, CONSTANT}:
            requirement = f"an objective is made of {', '.join(amounts)}"
            raise ArgumentError(requirement, value=f"got {name!r}")
        for name, weight in weights.items():
            if not is_number(weight):
                requirement = "the weights of an objective must be finite numbers"
                raise ArgumentError(requirement, location=name, value=f"got {weight!r:.60}")
        dynamics = self.dynamics.with_reward(weights)
        return replace(self, dynamics=dynamics, minimise=minimise, source=None)

    def with_observation_noise(self, noise: float | Sequence[float]) -> MDP:
        """The same model, seen with other noise: what ``draw`` takes when it is given none."""
        return replace(self, observation_noise=noise)

    @cached_property
    def fingerprint(self) -> str:
        """A hash of all that decides the model's numbers; see ``SourceModel`` for one of a file."""
        digest = hashlib.sha256()
        update_digest(digest, self.grid.axes, self.grid.values, [str(a) for a in self.actions])
        key = self.criterion.fingerprint_key()
        update_digest(digest, key, self.feasible, self.start, self.dynamics)
        fingerprint = digest.hexdigest()
        if self.source is not None and self.source.table_fingerprint == fingerprint:
            return self.source.fingerprint
        return fingerprint

    @cached_property
    def content_hash(self) -> str | None:
        """A hash of the arrays that a file of this model holds: what a certificate names.

        None for a model whose rows would be too many to write out.
        """
        from tessella.mdp.netcdf import hash_model

        return hash_model(self)

    def save(self, path: str | Path) -> None:
        """Write the model's arrays as NetCDF, readable without this package."""
        from tessella.mdp.netcdf import save

        save(self, path)

    @staticmethod
    def load(path: str | Path) -> MDP:
        """A model that ``save`` wrote, with tabular dynamics of the same expectations.

        It has the fingerprint of the model that was saved, so that solutions, certificates and
        rules of one are those of the other.
        Arrays are checked as in ``from_arrays``: anybody can write a file.
        """
        from tessella.mdp.netcdf import FILE_SUBJECT, load

        with wrap_read_errors(path, FILE_SUBJECT):
            fields, fingerprint = load(path)
            mdp = MDP(**fields)
            if mdp.start is not None:
                start_distribution(mdp, mdp.start.astype(float, casting="same_kind"))
            if fingerprint != mdp.fingerprint:
                raise FileError("the file has the fingerprint of another model")
            return mdp

    def __repr__(self) -> str:
        title = f"{self.name}: " if self.name else ""
        grid = self.grid
        axes = " x ".join(f"{n} {s}" for n, s in zip(grid.axes, grid.lengths, strict=True))
        axes += f", {grid.size:,} states" if grid.is_listed else ""
        dynamics = self.dynamics.kind
        dynamics += ", interpolated" if self.dynamics.is_interpolated else ""
        adjective = "" if self.action_name == "action" else f"{self.action_name} "
        components = ", ".join(component_names(self.actions))
        actions = f"{self.n_actions} {adjective}actions"
        actions += f" ({components})" if components else ""
        clock = "" if self.clock is None else f", {self.clock}"
        sense = ", costs" if self.sense.is_cost else ""
        return f"MDP({title}{axes}; {actions}, {self.criterion}{clock}{sense}, {dynamics})"


def _minimises_cost(parts: Sequence[Stage] | Sequence[Event]) -> bool:
    """Whether costs are given and no rewards."""
    has_costs = any(part.costs is not None for part in parts)
    return has_costs and all(part.pays is None for part in parts)


def assemble_model(
    parts: ModelParts,
    criterion: float | Criterion,
    name: str,
    parameters: Mapping[str, Any] | None = None,
    minimise: bool = False,
) -> MDP:
    """The model of these parts; with a finite horizon, of that many such periods."""
    parts, criterion = as_criterion(criterion).transform(parts, minimise)
    if isinstance(criterion, FiniteHorizon):
        if not isinstance(parts.dynamics, FiniteHorizonDynamics):
            parts = repeat_over_horizon(parts, _final_as_reward(criterion, minimise))
        criterion = replace(criterion, final=0.0)  # the dynamics hold the final reward
    return MDP(
        parts.space.grid,
        parts.space.actions,
        criterion,
        parts.dynamics,
        parts.feasible,
        parts.space.action_name,
        name,
        dict(parameters or {}),
        parts.start,
        minimise=minimise,
    )


def _final_as_reward(horizon: FiniteHorizon, minimise: bool) -> FiniteHorizon:
    """A horizon whose final value is a reward; in a model given in costs it is a cost."""
    return replace(horizon, final=subtract_costs(None, horizon.final)) if minimise else horizon


def update_digest(digest, *values: Any) -> None:
    """Add ``values`` to the digest: numbers, text, arrays; dataclasses, mappings, lists of them.

    Functions are left out: their results are in the arrays. Each value ends in a separator, so
    that (1, 23) and (12, 3) differ.
    """
    for value in values:
        if hasattr(value, "indptr"):  # a sparse matrix; the width of its indices may vary
            index = (value.indptr.astype(np.int64), value.indices.astype(np.int64))
            update_digest(digest, value.shape, *index, value.data)
        elif isinstance(value, np.ndarray):
            digest.update(f"{value.dtype.str}{value.shape}".encode())
            normalised = value + 0.0 if value.dtype.kind == "f" else value  # -0.0 becomes 0.0
            digest.update(normalised.tobytes())
        elif dataclasses.is_dataclass(value):
            name = type(value).__name__
            digest.update(getattr(value, "hashed_name", HASHED_NAMES.get(name, name)).encode())
            fields = dataclasses.fields(value)
            make_key = getattr(value, "fingerprint_key", None)
            key = [getattr(value, f.name) for f in fields] if make_key is None else make_key()
            update_digest(digest, *key)
        elif isinstance(value, Mapping):
            update_digest(digest, list(value), list(value.values()))
        elif isinstance(value, list | tuple):
            digest.update(f"[{len(value)}]".encode())
            update_digest(digest, *value)
        elif not callable(value):
            digest.update(repr(value).encode())
        digest.update(b";")
