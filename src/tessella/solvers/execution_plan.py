"""plan(mdp) -> ExecutionPlan: how a model is solved, each choice with its reason.

All routes are chosen here and nowhere else: rows or stages, NumPy or JAX, the precision, the
method, the kernels and the devices, and how certificates and rules are computed. The numbers behind
the choices are in ``thresholds``. ``solve``, ``evaluate``, ``occupancy``,
``certify`` and ``compress`` follow a plan; ``plan.using(...)`` requests another route.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, ClassVar, NoReturn, cast

from tessella.errors import ArgumentError, require_type, require_whole
from tessella.mdp.dynamics import (
    TILED_MIN_LAST_AXIS,
    BackendModel,
    CompileOptions,
    Dynamics,
    TileSizes,
)
from tessella.mdp.model import MDP
from tessella.mdp.stages.partition import Partition, find_partition, partition_among_devices
from tessella.mdp.stages.staged import Staged
from tessella.mdp.tabular.rows import DENSE_MIN_SHARE, RowLayout
from tessella.solvers.method import Method, require_method
from tessella.solvers.mixed_precision import MixedPrecision
from tessella.solvers.policy_iteration import InexactPolicyIteration
from tessella.solvers.thresholds import DEFAULT_THRESHOLDS, Thresholds

if TYPE_CHECKING:
    from tessella.solvers.plan import CostEstimate

TILED_PLATFORMS = ("gpu", "cuda", "rocm")
TILED_MAX_STATES = (1 << 31) - 1  # positions in memory are counted in 32 bits


CHOICES: Mapping[str, tuple[str, ...]] = {
    "representation": ("rows", "stages"),
    "backend": ("numpy", "jax"),
    "evaluation_precision": ("double", "single"),
    "preconditioner": ("none", "coarse"),
    "certificate_route": ("whole", "blocks"),
    "rule_evaluation": ("dense", "iterative"),
}


@dataclass(frozen=True, eq=False)
class ExecutionPlan:
    """How a model is solved, evaluated, certified and compressed on the devices that are there.

    Attributes:
        representation: ``rows`` of a table, or ``stages`` that are followed one by one.
        backend: ``numpy`` multiplies at once; ``jax`` compiles first.
        method: of solving, with its settings.
        evaluation_precision: corrections of a policy's value and occupancy in ``double`` or
            ``single`` precision; residuals and bounds are always in double.
        preconditioner: ``coarse`` where linear systems may get a coarse grid, else ``none``.
        tiles: how kernels of an accelerator cut the grid; None for plain forms.
        devices: that share the model; none where one does all of it.
        certificate_route: the ``whole`` model at once, or in ``blocks`` one after the other.
        rule_evaluation: candidates are evaluated on ``dense`` rows, or by the ``iterative`` loop.
        reasons: one line for each choice.
        cost: memory and time, where ``tessella.plan`` estimated them; else None.
    """

    mdp: MDP = field(repr=False)
    representation: str
    backend: str
    method: Method
    evaluation_precision: str
    preconditioner: str
    tiles: TileSizes | None
    devices: tuple[Any, ...]
    certificate_route: str
    rule_evaluation: str
    reasons: Mapping[str, str]
    thresholds: Thresholds = field(default=DEFAULT_THRESHOLDS, repr=False)
    requests: Mapping[str, Any] = field(default_factory=dict, repr=False)
    cost: CostEstimate | None = None

    def using(self, **changes: Any) -> ExecutionPlan:
        """The plan with other routes: ``plan.using(representation="stages")``.

        Choices that follow from the changed ones are made again; ``method``, ``tol``, ``devices``
        (a number), ``tiles`` and ``thresholds`` can be changed like the attributes. None withdraws
        a request; a new method replaces the tolerance, and a new tolerance the method.
        """
        requests = dict(self.requests)
        if changes.get("method") is not None:
            requests.pop("tol", None)
        if changes.get("tol") is not None:
            requests.pop("method", None)
        requests |= changes
        for name in (*CHOICES, "thresholds"):
            if requests.get(name, "") is None:
                del requests[name]
        return make_plan(self.mdp, **requests)

    def for_policies(self) -> ExecutionPlan:
        """The plan for evaluating policies: on one device, whatever the method of solving needs."""
        if "method" not in self.requests and not self.devices:
            return self
        return self.using(method=None, devices=1)

    @property
    def dynamics(self) -> Dynamics:
        """The model's dynamics in the planned representation."""
        dynamics = self.mdp.dynamics
        if self.representation == "stages" or dynamics.is_table:
            return dynamics
        rows = dynamics.get_or_build("rows", dynamics.as_rows)
        assert rows is not None
        return rows

    @property
    def backend_model(self) -> BackendModel:
        """The dynamics as the solvers run them, prepared once."""
        dynamics = self.dynamics
        if self.devices:
            return dynamics.get_or_build(self.devices, self._build_sharded_model)
        if self.backend == "numpy":
            thresholds = self.thresholds
            return dynamics.get_or_build(
                thresholds,
                lambda: dynamics.build_numpy_model(
                    lambda *rows: choose_row_layout(thresholds, *rows)
                ),
            )
        is_large = self.mdp.n_states > self.thresholds.vectorised_max_states
        by_period = dynamics.n_periods is not None and is_large
        options = CompileOptions(self.tiles, one_period_at_a_time=by_period)
        return dynamics.get_or_build(options, lambda: dynamics.compile(options))

    def _build_sharded_model(self) -> BackendModel:
        from tessella.mdp.stages.sharded import build_sharded_backend

        dynamics = cast(Staged, self.mdp.dynamics)
        partition = partition_among_devices(dynamics, len(self.devices))
        tiles = self.choose_block_tiles(partition)
        return build_sharded_backend(dynamics, partition, self.devices, tiles)

    @property
    def supports_blocks(self) -> bool:
        """Whether the model can be cut into blocks, for devices or for a certificate."""
        return _supports_sharding(self.mdp)

    def choose_block_tiles(self, partition: Partition) -> TileSizes | None:
        """How kernels cut one block of a partition."""
        if "tiles" in self.requests:
            return self.tiles
        return choose_tiles(partition.block_shape(self.mdp.grid.shape), self.thresholds)[0]

    def __str__(self) -> str:
        title = f"{self.mdp.name or 'MDP'}: {self.mdp.n_states:,} states, {self.mdp.criterion}"
        values = {name: getattr(self, name) for name in self.reasons} | {
            "method": self.method.name,
            "tiles": "none" if self.tiles is None else "tiled",
            "devices": str(max(len(self.devices), 1)),
        }
        name_width = max(map(len, values))
        width = max(map(len, values.values()))
        lines = [
            f"  {name:<{name_width}}  {value:<{width}}  {self.reasons[name]}"
            for name, value in values.items()
        ]
        cost = [] if self.cost is None else [self.cost.summary]
        return "\n".join([title, *lines, *cost])


def plan_for_policies(mdp: MDP, plan: ExecutionPlan | None) -> ExecutionPlan:
    """The plan for evaluating policies of a model: as given, or chosen."""
    return (make_plan(mdp) if plan is None else require_plan(mdp, plan)).for_policies()


def require_plan(mdp: MDP, plan: object) -> ExecutionPlan:
    """The plan for this model; raise an ArgumentError for what is no plan, or another model's."""
    if not isinstance(plan, ExecutionPlan):
        raise ArgumentError("plan must be what tessella.plan returns", value=f"got {plan!r:.60}")
    if plan.mdp is mdp:
        return plan
    has_same_form = plan.mdp.source == mdp.source  # a loaded model consists of tables
    if not has_same_form or plan.mdp.fingerprint != mdp.fingerprint:
        raise ArgumentError(
            "a plan serves the model that it was made for: make another with tessella.plan(mdp)",
            value=f"got one for {plan.mdp.name or 'another model'} of {plan.mdp.n_states:,} states",
        )
    return replace(plan, mdp=mdp)  # which may have another name


def make_plan(
    mdp: MDP,
    method: Method | None = None,
    *,
    tol: float | None = None,
    devices: int | None = None,
    thresholds: Thresholds = DEFAULT_THRESHOLDS,
    **requests: Any,
) -> ExecutionPlan:
    """The plan of a model: what was requested, and all else chosen."""
    require_type("plan", mdp, MDP)
    if method is not None:
        require_method(method, tol)
        method.check_supports(mdp)
    if not isinstance(thresholds, Thresholds):
        raise ArgumentError("thresholds must be Thresholds", value=f"got {thresholds!r:.60}")
    _check_requests(requests)
    given = {"method": method, "tol": tol, "devices": devices}
    requests |= {name: value for name, value in given.items() if value is not None}
    choices = _Choices(mdp, thresholds, requests)
    choices.check_requests()
    return ExecutionPlan(
        mdp,
        **{name: choices[name] for name in choices.makers},
        reasons={name: choices.made[name][1] for name in choices.makers},
        thresholds=thresholds,
        requests={**requests, "thresholds": thresholds},
    )


ReasonedChoice = tuple[Any, str]  # (choice, reason)


@dataclass
class _Choices:
    """Each choice, by what was requested or by the thresholds.

    ``choices[name]`` makes a choice when it is first requested, so that choices may use others.
    """

    mdp: MDP
    thresholds: Thresholds
    requests: Mapping[str, Any]

    def __post_init__(self) -> None:
        self.made = {name: (choice, "requested") for name, choice in self.requests.items()}
        self.made["devices"] = self._choose_devices()  # of the number that is requested

    def __getitem__(self, name: str) -> Any:
        if name not in self.made:
            self.made[name] = self.makers[name](self)
        return self.made[name][0]

    @property
    def method(self) -> Method | None:
        """The method that was requested."""
        return self.requests.get("method")

    def check_requests(self) -> None:
        """Raise an ArgumentError for requests that contradict the model, or one another."""
        self._check_criterion()
        dynamics = self.mdp.dynamics
        representation = self.requests.get("representation")
        wants_numpy = self.requests.get("backend") == "numpy"
        if wants_numpy:
            self._check_numpy()
        if dynamics.is_table and representation == "stages":
            _refuse("a table has rows, no stages", "representation='stages'")
        if dynamics.is_table and self.requests.get("tiles") is not None:
            _refuse("a table has rows, no stages", "tiles")
        if wants_numpy or representation == "rows":
            self._check_rows()

    def _check_criterion(self) -> None:
        mdp = self.mdp
        if self.requests.get("preconditioner") == "coarse" and not self._has_linear_systems:
            _refuse("a coarse correction serves discounted rewards and averages", mdp.criterion)
        if self.requests.get("certificate_route") == "blocks" and not _supports_sharding(mdp):
            kind = mdp.dynamics.kind if mdp.criterion.is_discounted else mdp.criterion
            _refuse("blocks serve models of stages with discounted rewards", kind)

    def _check_numpy(self) -> None:
        requested = "backend='numpy'"
        n_devices = len(self["devices"])
        if self.requests.get("representation") == "stages":
            _refuse("stages are compiled by JAX", requested)
        if n_devices > 1:
            _refuse("NumPy runs on one device", f"{requested}, devices={n_devices}")
        if self.reason_to_compile is not None:
            _refuse(self.reason_to_compile, requested)

    def _check_rows(self) -> None:
        dynamics = self.mdp.dynamics
        n_devices = len(self["devices"])
        if not dynamics.offers_rows:
            requirement = "rows serve models that are given as stages or as a table"
            _refuse(requirement, type(dynamics).__name__)
        if n_devices > 1:
            _refuse("several devices share stages", f"rows and devices={n_devices}")
        if self.method is not None and self.method.follows_stages:
            _refuse(f"{self.method.name} follows stages", "representation='rows'")

    def _choose_devices(self) -> ReasonedChoice:
        """The devices that share the model; none where one does all of it.

        Without a request it is all accelerators, for a large model that can be cut among them.
        """
        mdp = self.mdp
        method = self.method
        count = self.requests.get("devices")
        runs_on_one = method is not None and method.runs_on_one_device
        if runs_on_one and count not in (None, 1):
            _refuse(f"{method.name} runs on one device", f"devices={count!r}")  # type: ignore[union-attr]
        if count is not None:
            return take_devices(mdp, count), "requested"
        wants_rows = self.requests.get("representation") == "rows"
        if runs_on_one or wants_rows or self.requests.get("backend") == "numpy":
            return (), "one device runs this"
        if mdp.n_states < self.thresholds.accelerator_min_states:
            return (), f"{mdp.n_states:,} states: one device is enough"
        return _find_accelerators(mdp)

    def _choose_representation(self) -> ReasonedChoice:
        dynamics = self.mdp.dynamics
        if dynamics.is_table:
            return "rows", "the model is given as rows"
        if not dynamics.offers_rows:
            return "stages", f"{type(dynamics).__name__} offers no rows"
        if self["devices"]:
            return "stages", "blocks of stages are shared among devices"
        if self.requests.get("backend") == "numpy":
            return "rows", "NumPy multiplies rows"
        if self.reason_to_compile is not None:
            return "stages", self.reason_to_compile
        if dynamics.n_periods is not None:
            return choose_period_representation(dynamics, self.thresholds)
        criterion = self.mdp.criterion
        periods = criterion.value_of_constant_reward(1.0) if criterion.is_discounted else 0.0
        if self._is_large and periods >= self.thresholds.many_periods:  # sweeps alone take long
            return "stages", f"{self.mdp.n_states:,} states and many periods: a coarse grid helps"
        return choose_representation(cast(Staged, dynamics), self.thresholds)

    @property
    def reason_to_compile(self) -> str | None:
        """Why JAX must run the model, by what was requested; None where it need not."""
        if self.requests.get("backend") == "jax":
            return "JAX follows stages"
        if self.method is not None and self.method.requires_jax:
            return f"{self.method.name} is compiled"
        if self.requests.get("evaluation_precision") == "single":
            return "corrections in single precision are compiled"
        if self.requests.get("tiles") is not None:
            return "kernels that cut the grid are compiled"
        return None

    def _choose_backend(self) -> ReasonedChoice:
        if self["representation"] == "stages":
            return "jax", "stages are compiled"
        if self.reason_to_compile is not None:
            return "jax", self.reason_to_compile
        limit = self.thresholds.accelerator_min_entries
        if self.mdp.dynamics.max_row_entries > limit and is_on_accelerator():
            rows = self.mdp.dynamics.as_rows()
            if rows is not None and rows.max_row_entries > limit:
                return "jax", f"{rows.max_row_entries:,} entries on an accelerator"
        return "numpy", "rows need no compiling"

    def _choose_method(self) -> ReasonedChoice:
        """The method that ``solve`` takes by itself."""
        mdp = self.mdp
        tol = self.requests.get("tol")
        thresholds = self.thresholds
        if mdp.dynamics.n_periods is not None:
            from tessella.solvers.backward_induction import BackwardInduction

            return BackwardInduction(tol), "a horizon is solved period by period, from the last"
        states = f"{mdp.n_states:,} states"
        if self._is_large and self["backend"] == "jax" and self._use_mixed_precision():
            reason = f"{states}, {mdp.criterion}: sweeps and corrections in single precision"
            if self._uses_accelerator_in_full:
                terms = thresholds.accelerator_correction_terms
                return MixedPrecision(tol, correction_terms=terms), reason
            return MixedPrecision(tol), reason
        forcing = thresholds.small_forcing
        reason = f"{states}: few iterations, each with an accurate evaluation"
        if self._is_large:
            forcing = thresholds.large_forcing
            reason = f"{states}: rough evaluations by linear solvers pay"
        return InexactPolicyIteration(tol, forcing=forcing), reason

    @property
    def _is_large(self) -> bool:
        return self.mdp.n_states > self.thresholds.large_min_states

    @property
    def _uses_accelerator_in_full(self) -> bool:
        """Whether the model is large enough for an accelerator, and there is one."""
        return self.mdp.n_states >= self.thresholds.accelerator_min_states and is_on_accelerator()

    @property
    def _has_linear_systems(self) -> bool:
        """Whether policies are evaluated by linear systems, without a horizon or an end."""
        criterion = self.mdp.criterion
        return criterion.has_gain or (criterion.is_discounted and not criterion.has_horizon)

    def _use_mixed_precision(self) -> bool:
        mdp = self.mdp
        thresholds = self.thresholds
        wants_double = self.requests.get("evaluation_precision") == "double"
        if wants_double or not self._has_linear_systems:
            return False
        if self._uses_accelerator_in_full:
            return True
        if not mdp.dynamics.has_stages or self["representation"] == "rows":
            return False
        dynamics = cast(Staged, mdp.dynamics)
        return mdp.criterion.has_gain or dynamics.count_sweep_products(
            mdp.n_actions
        ) <= thresholds.mixed_max_sweep_ratio * dynamics.count_sweep_products(1)

    def _choose_evaluation_precision(self) -> ReasonedChoice:
        mdp = self.mdp
        if self["backend"] == "numpy":
            return "double", "NumPy gains little by single precision"
        if not self._is_large:
            return "double", f"{mdp.n_states:,} states: double precision costs nothing"
        if not self._has_linear_systems:
            return "double", f"{mdp.criterion}: single precision has too few digits"
        return "single", f"{mdp.n_states:,} states: corrections take half the time"

    def _choose_preconditioner(self) -> ReasonedChoice:
        states = f"{self.mdp.n_states:,} states"
        if not self._has_linear_systems:
            return "none", "only discounted rewards and averages use one"
        if not self._is_large:
            return "none", f"{states}: linear systems are quick as they are"
        if self["devices"]:
            return "none", "blocks of a grid have none"
        is_discounted = not self.mdp.criterion.has_gain
        max_states = _find_coarse_max_states(self.thresholds)
        if is_discounted and self.mdp.n_states > max_states:
            return "none", f"{states}: too many for the nodes of a coarse grid"
        if is_discounted and self["representation"] == "rows":
            return "none", "rows of a table have no geometry"
        return "coarse", f"{states}: what mixes slowly is solved for on a coarse grid"

    def _choose_tiles(self) -> ReasonedChoice:
        if self["representation"] == "rows":
            return None, "rows have none"
        shape = self.mdp.dynamics.distinct_periods[0].shape
        if self["devices"]:
            dynamics = self.mdp.dynamics
            partition = partition_among_devices(dynamics, len(self["devices"]))
            shape = partition.block_shape(dynamics.shape)
        return choose_tiles(shape, self.thresholds)

    def _choose_certificate_route(self) -> ReasonedChoice:
        return "whole", "it bounds every state and can be checked; blocks give figures alone"

    def _choose_rule_evaluation(self) -> ReasonedChoice:
        thresholds = self.thresholds
        n = self.mdp.n_states
        entries = n * n * self.mdp.n_actions
        if n <= thresholds.dense_rules_max_states and entries <= thresholds.dense_rules_max_entries:
            return "dense", f"{entries:,} entries: candidates share one inverse"
        return "iterative", f"{entries:,} entries would be dense rows"

    # In the order in which a plan prints them.
    makers: ClassVar[dict[str, Callable[[_Choices], ReasonedChoice]]] = {
        "representation": _choose_representation,
        "backend": _choose_backend,
        "method": _choose_method,
        "evaluation_precision": _choose_evaluation_precision,
        "preconditioner": _choose_preconditioner,
        "tiles": _choose_tiles,
        "devices": _choose_devices,
        "certificate_route": _choose_certificate_route,
        "rule_evaluation": _choose_rule_evaluation,
    }


def _refuse(requirement: str, requested: object) -> NoReturn:
    raise ArgumentError(requirement, value=f"got {requested}")


def choose_representation(dynamics: Staged, thresholds: Thresholds) -> ReasonedChoice:
    """Rows or stages: a table that must be small, or was made and is. Kept for each threshold."""
    return dynamics.get_or_build(
        ("representation", thresholds), lambda: _choose_representation(dynamics, thresholds)
    )


def _choose_representation(dynamics: Staged, thresholds: Thresholds) -> ReasonedChoice:
    states = f"{dynamics.space.grid.size:,} states"
    if dynamics.max_row_entries <= thresholds.rows_max_entries:
        return "rows", f"{states}, at most {dynamics.max_row_entries:,} entries"
    sweep_products = dynamics.count_sweep_products(dynamics.n_actions)
    is_heavy = sweep_products >= thresholds.heavy_sweep_products
    max_entries = thresholds.rows_max_entries
    if is_heavy:
        max_entries = min(sweep_products, thresholds.heavy_rows_max_entries)
    outcomes = dynamics.stage_outcomes
    min_entries = dynamics.space.grid.size * dynamics.n_actions * thresholds.row_min_entries
    # Building the rows must take little time and memory, however long they are.
    if (
        min_entries > max_entries
        or max(outcomes) > thresholds.stage_max_outcomes
        or sum(outcomes) * dynamics.n_actions > thresholds.period_max_outcomes
    ):
        return "stages", f"{states}: their rows would be too many to make"
    estimate = estimate_row_entries(dynamics, thresholds)
    if estimate > max_entries:
        return "stages", f"{states}, about {estimate:,} entries"
    rows = dynamics.as_rows(thresholds.entry_estimate_slack * max_entries)
    if rows is None:
        return "stages", f"{states}: rows turned out longer than estimated"
    return "rows", f"{states}, {rows.rows.nnz:,} entries"


def estimate_row_entries(dynamics: Staged, thresholds: Thresholds) -> int:
    """Entries of the rows of all pairs, or of the distinct ones with their weight if fewer."""
    entries = dynamics.estimate_row_entries(thresholds.sampled_states, thresholds.sampled_actions)
    n_pairs = dynamics.space.grid.size * dynamics.n_actions
    weight = thresholds.distinct_row_weight * dynamics.count_distinct_rows() / n_pairs
    return math.ceil(entries * min(weight, 1.0))


def choose_period_representation(dynamics: Dynamics, thresholds: Thresholds) -> ReasonedChoice:
    """Rows where every period is a table, or few enough numbers to be made into one."""
    staged = [cast(Staged, period) for period in dynamics.distinct_periods if period.has_stages]
    # A table may be held as dense.
    dense_entries = math.prod(dynamics.distinct_periods[0].shape) ** 2 * dynamics.n_actions
    dense_entries = min(dense_entries, thresholds.dense_rows_max_entries)
    entries = sum(max(period.max_row_entries, dense_entries) for period in staged)
    n_periods = len(dynamics.distinct_periods)
    count = "1 distinct period" if n_periods == 1 else f"{n_periods:,} distinct periods"
    if entries > thresholds.period_rows_max_entries:
        return "stages", f"{count}, up to {entries:,} entries"
    if any(choose_representation(period, thresholds)[0] == "stages" for period in staged):
        return "stages", f"{count}, of which some are large"
    return "rows", f"{count}, at most {entries:,} entries"


def choose_row_layout(thresholds: Thresholds, rows: Any, n_pairs: int) -> RowLayout:
    """How NumPy holds these sparse rows (U, S) of that many pairs of states and actions."""
    entries = rows.nnz
    dense_entries = rows.shape[0] * rows.shape[1]
    is_dense = dense_entries <= max(thresholds.dense_rows_max_entries, entries / DENSE_MIN_SHARE)
    cheap_entries = max(thresholds.cheap_sweep_max_entries, thresholds.short_row_entries * n_pairs)
    return RowLayout(
        dense=is_dense,
        sweeps_are_cheap=n_pairs <= thresholds.all_actions_max_pairs and entries <= cheap_entries,
        has_long_rows=not is_dense and entries >= thresholds.long_row_entries * rows.shape[0],
        dense_solve_max_states=thresholds.dense_solve_max_states,
    )


def choose_tiles(shape: tuple[int, ...], thresholds: Thresholds) -> tuple[TileSizes | None, str]:
    """How kernels cut a grid of this shape on the present device; None where plain forms do."""
    states = math.prod(shape)
    if states < thresholds.accelerator_min_states:
        return None, f"{states:,} states: plain forms are enough"
    if states > TILED_MAX_STATES or shape[-1] < TILED_MIN_LAST_AXIS:
        return None, f"the grid's shape {shape} makes poor tiles"
    import jax

    if jax.default_backend() not in TILED_PLATFORMS:
        return None, f"there is no accelerator, only {jax.default_backend()}"
    return TileSizes(), f"{states:,} states on an accelerator"


def take_devices(mdp: MDP, count: int) -> tuple[Any, ...]:
    """That many devices to share a model; none of one."""
    require_whole("devices", count, 1)
    if count == 1:
        return ()
    if not _supports_sharding(mdp):
        raise ArgumentError(
            "several devices serve models of stages with discounted rewards",
            value=f"this is {mdp.dynamics.kind}, {mdp.criterion}",
        )
    import jax

    devices = jax.devices()
    if count > len(devices):
        raise ArgumentError(
            "there must be as many devices as a model is cut among",
            value=f"got {count}, and JAX sees {len(devices)} ({devices[0].platform})",
        )
    return tuple(devices[:count])


def _supports_sharding(mdp: MDP) -> bool:
    return mdp.dynamics.has_stages and mdp.criterion.is_discounted


def _find_accelerators(mdp: MDP) -> tuple[tuple[Any, ...], str]:
    if not _supports_sharding(mdp):
        return (), "only stages with discounted rewards are cut among devices"
    if not is_on_accelerator():
        return (), "there is no accelerator"
    import jax

    devices = jax.devices()
    if len(devices) == 1:
        return (), "there is one accelerator"
    if find_partition(mdp.dynamics, len(devices)) is None:
        return (), "a period reaches across most of every axis"
    return tuple(devices), f"{mdp.n_states:,} states on {len(devices)} accelerators"


def _find_coarse_max_states(thresholds: Thresholds) -> int:
    """States of the largest discounted model that gets a coarse grid on the present device."""
    if not is_on_accelerator():
        return thresholds.coarse_max_states
    import jax

    stats = jax.devices()[0].memory_stats() or {}
    device_bytes = stats.get("bytes_limit", math.inf)
    max_states = device_bytes / thresholds.accelerator_coarse_state_bytes
    return int(min(max_states, thresholds.accelerator_coarse_max_states))


def is_on_accelerator() -> bool:
    """Whether JAX computes on something other than the processor."""
    from tessella.mdp.compilation import results_stay_on_device

    return results_stay_on_device()


def _check_requests(requests: Mapping[str, Any]) -> None:
    for name, value in requests.items():
        if name == "tiles":
            if value is not None and not isinstance(value, TileSizes):
                raise ArgumentError("tiles must be TileSizes, or None", value=f"got {value!r:.60}")
            continue
        if name not in CHOICES:
            names = ", ".join([*CHOICES, "method", "tol", "devices", "tiles", "thresholds"])
            raise ArgumentError(f"a plan has the choices {names}", value=f"got {name!r}")
        if value not in CHOICES[name]:
            allowed = " or ".join(map(repr, CHOICES[name]))
            raise ArgumentError(f"{name} must be {allowed}", value=f"got {value!r:.60}")
