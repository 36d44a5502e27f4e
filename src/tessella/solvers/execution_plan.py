"""plan(mdp) -> ExecutionPlan: how a model is solved, each choice with its reason.

All routes are chosen here and nowhere else: whether rows are multiplied or stages are followed, by
NumPy or by JAX, in which precision, by which method, with which kernels and on which devices, and
how certificates and rules are worked out. Their numbers stand in
``thresholds``. ``solve``, ``evaluate``, ``occupancy``,
``certify`` and ``compress`` follow a plan; ``plan.using(...)`` asks for another route.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from tessella.criteria.average import Average
from tessella.criteria.discounted import Discounted
from tessella.errors import ArgumentError, require_type, require_whole
from tessella.mdp.dynamics import (
    TILED_MIN_LAST_AXIS,
    BackendModel,
    CompileOptions,
    Dynamics,
    TileSizes,
)
from tessella.mdp.finite_horizon import FiniteHorizonDynamics
from tessella.mdp.model import MDP
from tessella.mdp.stages.partition import Partition, block_shape, find_partition
from tessella.mdp.stages.staged import Staged
from tessella.mdp.tabular.rows import DENSE_MIN_SHARE, RowLayout
from tessella.mdp.tabular.tabular import Tabular
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
    "evaluation": ("double", "single"),
    "correction": ("none", "coarse"),
    "certificate": ("whole", "blocks"),
    "rules": ("dense", "iterative"),
}


@dataclass(frozen=True, eq=False)
class ExecutionPlan:
    """How a model is solved, evaluated, certified and compressed on the devices that are there.

    Attributes:
        representation: ``rows`` of a table, or ``stages`` that are followed one by one.
        backend: ``numpy`` multiplies at once; ``jax`` compiles first.
        method: of solving, with its settings.
        evaluation: corrections of a policy's value and occupancy in ``double`` or ``single``
            precision; residuals and bounds are always in double.
        correction: ``coarse`` where linear systems of averages get a coarse grid, else ``none``.
        tiles: how kernels of an accelerator cut the grid; None for plain forms.
        devices: that share the model; none where one does all of it.
        certificate: of the ``whole`` model, or in ``blocks`` that are looked at one by one.
        rules: candidates are evaluated on ``dense`` rows, or by the ``iterative`` loop.
        reasons: one line for each choice.
        cost: memory and time, where ``tessella.plan`` estimated them; else None.
    """

    mdp: MDP = field(repr=False)
    representation: str
    backend: str
    method: Method
    evaluation: str
    correction: str
    tiles: TileSizes | None
    devices: tuple[Any, ...]
    certificate: str
    rules: str
    reasons: Mapping[str, str]
    thresholds: Thresholds = field(default=DEFAULT_THRESHOLDS, repr=False)
    requests: Mapping[str, Any] = field(default_factory=dict, repr=False)
    cost: CostEstimate | None = None

    def using(self, **changes: Any) -> ExecutionPlan:
        """The plan with other routes: ``plan.using(representation="stages")``.

        Choices that follow from the changed ones are made anew; ``method``, ``tol``, ``devices`` (a
        number), ``tiles`` and ``thresholds`` can be changed like the attributes. None withdraws a
        request; a new method replaces the tolerance, and a new tolerance the method.
        """
        requests = dict(self.requests)
        if changes.get("method") is not None:
            requests.pop("tol", None)
        if changes.get("tol") is not None:
            requests.pop("method", None)
        requests |= changes
        withdrawn = [k for k, v in requests.items() if v is None and k in {*CHOICES, "thresholds"}]
        for name in withdrawn:
            requests.pop(name)
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
        if self.representation == "stages" or is_table(dynamics):
            return dynamics
        rows = dynamics.prepare("rows", dynamics.as_rows)
        assert rows is not None
        return rows

    @property
    def backend_model(self) -> BackendModel:
        """The dynamics as the solvers run them, prepared once."""
        dynamics = self.dynamics
        if self.devices:
            return dynamics.prepare(self.devices, self._shard)
        if self.backend == "numpy":
            t = self.thresholds
            return dynamics.prepare(
                t, lambda: dynamics.numpy_model(lambda *of: choose_row_layout(t, *of))
            )
        has_periods = isinstance(dynamics, FiniteHorizonDynamics)
        is_large = self.mdp.n_states > self.thresholds.vectorised_max_states
        options = CompileOptions(self.tiles, one_period_at_a_time=has_periods and is_large)
        return dynamics.prepare(options, lambda: dynamics.compile_with(options))

    def _shard(self) -> BackendModel:
        from tessella.mdp.stages.sharded import build_sharded_backend, require_partition

        dynamics = self.mdp.dynamics
        partition = require_partition(dynamics, len(self.devices))
        assert isinstance(dynamics, Staged)
        tiles = self.tiles_of_block(partition)
        return build_sharded_backend(dynamics, partition, self.devices, tiles)

    @property
    def supports_blocks(self) -> bool:
        """Whether the model can be cut into blocks, for devices or for a certificate."""
        return _supports_sharding(self.mdp)

    def tiles_of_block(self, partition: Partition) -> TileSizes | None:
        """How kernels cut one block of a partition."""
        if "tiles" in self.requests:
            return self.tiles
        assert isinstance(self.mdp.dynamics, Staged)
        return choose_tiles(block_shape(self.mdp.dynamics, partition), self.thresholds)[0]

    def __str__(self) -> str:
        title = f"{self.mdp.name or 'MDP'}: {self.mdp.n_states:,} states, {self.mdp.criterion}"
        values = {
            "representation": self.representation,
            "backend": self.backend,
            "method": self.method.name,
            "evaluation": f"{self.evaluation} precision",
            "correction": self.correction,
            "tiles": "none" if self.tiles is None else "tiled",
            "devices": str(max(len(self.devices), 1)),
            "certificate": self.certificate,
            "rules": self.rules,
        }
        width = max(map(len, values.values()))
        lines = [
            f"  {name:<14}  {value:<{width}}  {self.reasons[name]}"
            for name, value in values.items()
        ]
        cost = [] if self.cost is None else [self.cost.summary]
        return "\n".join([title, *lines, *cost])


def plan_for_policies(mdp: MDP, plan: ExecutionPlan | None) -> ExecutionPlan:
    """The plan for evaluating policies of a model: as given, or chosen."""
    if plan is None:
        return make_plan(mdp).for_policies()
    return require_plan(mdp, plan).for_policies()


def require_plan(mdp: MDP, plan: object) -> ExecutionPlan:
    """The plan for this model; raise an ArgumentError for what is no plan, or another model's."""
    if not isinstance(plan, ExecutionPlan):
        raise ArgumentError("plan must be what tessella.plan returns", value=f"got {plan!r:.60}")
    if plan.mdp is mdp:
        return plan
    if plan.mdp.fingerprint != mdp.fingerprint:
        raise ArgumentError(
            "a plan serves the model that it was made for",
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
    """The plan of a model: what was asked for, and all else chosen."""
    require_type("plan", mdp, MDP)
    if method is not None:
        require_method(method, tol)
        method.check_supports(mdp)
    if not isinstance(thresholds, Thresholds):
        raise ArgumentError("thresholds must be Thresholds", value=f"got {thresholds!r:.60}")
    _check_requests(requests)
    choose = _Choices(mdp, thresholds, method, requests)
    device_list, devices_reason = choose.devices(devices)
    choose.check_combination(len(device_list))
    representation, representation_reason = choose.representation(bool(device_list))
    backend, backend_reason = choose.backend(representation)
    if method is None:
        chosen_method, method_reason = choose.method_of(representation, backend, tol)
    else:
        chosen_method, method_reason = method, "as asked"
    evaluation, evaluation_reason = choose.evaluation(backend)
    correction, correction_reason = choose.correction()
    tiles, tiles_reason = choose.tiles(representation, len(device_list))
    certificate, certificate_reason = choose.certificate()
    rules, rules_reason = choose.rules()
    reasons = {
        "representation": representation_reason,
        "backend": backend_reason,
        "method": method_reason,
        "evaluation": evaluation_reason,
        "correction": correction_reason,
        "tiles": tiles_reason,
        "devices": devices_reason,
        "certificate": certificate_reason,
        "rules": rules_reason,
    }
    arguments = {"method": method, "tol": tol, "devices": devices}
    asked = {name: value for name, value in arguments.items() if value is not None}
    return ExecutionPlan(
        mdp,
        representation,
        backend,
        chosen_method,
        evaluation,
        correction,
        tiles,
        device_list,
        certificate,
        rules,
        reasons,
        thresholds,
        {**requests, **asked, "thresholds": thresholds},
    )


Choice = tuple[str, str]  # what was chosen, and why


def is_table(dynamics: Dynamics) -> bool:
    """Whether a model, or every period of it, is given as rows."""
    periods = (
        dynamics.distinct_periods if isinstance(dynamics, FiniteHorizonDynamics) else [dynamics]
    )
    return all(isinstance(period, Tabular) for period in periods)


@dataclass(frozen=True)
class _Choices:
    """Each choice, by what was asked for or by the thresholds."""

    mdp: MDP
    thresholds: Thresholds
    method: Method | None
    requests: Mapping[str, Any]

    def check_combination(self, n_devices: int) -> None:
        """Raise an ArgumentError for requests that contradict the model, or one another."""
        self._check_criterion()
        representation = self.requests.get("representation")
        if self.requests.get("backend") == "numpy":
            self._check_numpy(n_devices)
        if representation == "stages" or self.requests.get("tiles") is not None:
            self._check_stages()
        if representation == "rows" or self.requests.get("backend") == "numpy":
            self._check_rows(n_devices)

    def _check_criterion(self) -> None:
        mdp = self.mdp
        if self.requests.get("correction") == "coarse" and not isinstance(mdp.criterion, Average):
            raise ArgumentError("a coarse correction serves averages", value=f"got {mdp.criterion}")
        if self.requests.get("certificate") == "blocks" and not _supports_sharding(mdp):
            kind = str(mdp.criterion)
            if isinstance(mdp.criterion, Discounted):
                kind = mdp.dynamics.kind
            requirement = "blocks serve models of stages with discounted rewards"
            raise ArgumentError(requirement, value=f"got {kind}")

    def _check_numpy(self, n_devices: int) -> None:
        """What JAX must compile, NumPy does not run."""
        if self.requests.get("representation") == "stages":
            raise ArgumentError("stages are compiled by JAX", value="got backend='numpy'")
        if n_devices > 1:
            requirement = "NumPy runs on one device"
            raise ArgumentError(requirement, value=f"got backend='numpy', devices={n_devices}")
        if self.reason_to_compile is not None:
            raise ArgumentError(self.reason_to_compile, value="got backend='numpy'")

    def _check_stages(self) -> None:
        if is_table(self.mdp.dynamics):
            asked = self.requests.get("representation")
            value = "got tiles" if asked is None else f"got representation={asked!r}"
            raise ArgumentError("a table has rows, no stages", value=value)

    def _check_rows(self, n_devices: int) -> None:
        dynamics = self.mdp.dynamics
        if not isinstance(dynamics, Staged | FiniteHorizonDynamics | Tabular):
            requirement = "rows serve models that are given as stages or as a table"
            raise ArgumentError(requirement, value=f"got {type(dynamics).__name__}")
        if n_devices > 1:
            requirement = "several devices share stages"
            raise ArgumentError(requirement, value=f"got rows and devices={n_devices}")
        if self.method is not None and self.method.follows_stages:
            requirement = f"{self.method.name} follows stages"
            raise ArgumentError(requirement, value="got representation='rows'")

    def devices(self, count: int | None) -> tuple[tuple[Any, ...], str]:
        """Those that share the model, where the other requests leave that open."""
        runs_on_one = self.method is not None and self.method.runs_on_one_device
        if runs_on_one and count is not None and count != 1:
            requirement = f"{self.method.name} runs on one device"  # type: ignore[union-attr]
            raise ArgumentError(requirement, value=f"got devices={count!r}")
        by_rows = self.requests.get("representation") == "rows"
        if count is None and (runs_on_one or by_rows or self.requests.get("backend") == "numpy"):
            return (), "one device runs this"
        return choose_devices(self.mdp, count, self.thresholds)

    def representation(self, is_sharded: bool) -> Choice:
        asked = self.requests.get("representation")
        if asked is not None:
            return asked, "as asked"
        dynamics = self.mdp.dynamics
        if is_table(dynamics):
            return "rows", "the model is given as rows"
        if not isinstance(dynamics, Staged | FiniteHorizonDynamics):
            return "stages", f"{type(dynamics).__name__} offers no rows"
        if is_sharded:
            return "stages", "blocks of stages are shared among devices"
        if self.requests.get("backend") == "numpy":
            return "rows", "NumPy multiplies rows"
        if self.reason_to_compile is not None:
            return "stages", self.reason_to_compile
        if isinstance(dynamics, FiniteHorizonDynamics):
            return choose_period_representation(dynamics, self.thresholds)
        return choose_representation(dynamics, self.thresholds)

    @property
    def reason_to_compile(self) -> str | None:
        """Why JAX must run the model, by what was asked for; None where it need not."""
        if self.requests.get("backend") == "jax":
            return "JAX follows stages"
        if self.method is not None and self.method.requires_jax:
            return f"{self.method.name} is compiled"
        if self.requests.get("evaluation") == "single":
            return "corrections in single precision are compiled"
        if self.requests.get("tiles") is not None:
            return "kernels that cut the grid are compiled"
        return None

    def backend(self, representation: str) -> Choice:
        asked = self.requests.get("backend")
        if asked is not None:
            return asked, "as asked"
        if representation == "stages":
            return "jax", "stages are compiled"
        if self.reason_to_compile is not None:
            return "jax", self.reason_to_compile
        limit = self.thresholds.accelerator_min_entries
        if max_table_entries(self.mdp.dynamics) > limit and is_on_accelerator():
            entries = count_table_entries(self.mdp.dynamics)
            if entries > limit:
                return "jax", f"{entries:,} entries on an accelerator"
        return "numpy", "rows need no compiling"

    def method_of(self, representation: str, backend: str, tol: float | None) -> tuple[Method, str]:
        """The method that ``solve`` takes by itself."""
        mdp = self.mdp
        t = self.thresholds
        if isinstance(mdp.dynamics, FiniteHorizonDynamics):
            from tessella.solvers.backward_induction import BackwardInduction

            return BackwardInduction(tol), "a horizon is solved period by period, from the last"
        n = f"{mdp.n_states:,} states"
        if backend == "jax" and self._use_mixed_precision(representation):
            reason = f"{n}, discount {mdp.discount}: sweeps in single precision pay"
            return MixedPrecision(tol), reason
        settings: dict[str, Any] = {"forcing": t.large_forcing}
        reason = f"{n}: rough evaluations by linear solvers pay"
        if mdp.n_states <= t.small_max_states:
            settings = {"forcing": t.small_forcing}
            reason = f"{n}: few rounds, each with an accurate evaluation"
        elif isinstance(mdp.criterion, Average):
            settings = {"forcing": t.average_forcing, "max_products": t.average_max_products}
            reason = f"{n}, average: accurate evaluations once the policy has settled"
        return InexactPolicyIteration(tol, thresholds=t.evaluation, **settings), reason

    def _use_mixed_precision(self, representation: str) -> bool:
        mdp = self.mdp
        t = self.thresholds
        if mdp.n_states <= t.mixed_min_states or not isinstance(mdp.criterion, Discounted):
            return False
        if mdp.discount > t.mixed_max_discount:
            return False
        if mdp.n_states >= t.accelerator_min_states and is_on_accelerator():
            return True
        dynamics = mdp.dynamics
        if not isinstance(dynamics, Staged) or representation == "rows":
            return False
        return dynamics.sweep_products <= t.mixed_max_sweep_ratio * dynamics.policy_sweep_products

    def evaluation(self, backend: str) -> Choice:
        asked = self.requests.get("evaluation")
        if asked is not None:
            return asked, "as asked"
        mdp = self.mdp
        t = self.thresholds
        if backend == "numpy":
            return "double", "NumPy gains little by single precision"
        if mdp.n_states <= t.single_min_states:
            return "double", f"{mdp.n_states:,} states: double precision costs nothing"
        if mdp.discount > t.single_max_discount:
            return "double", f"{mdp.criterion}: single precision has too few digits"
        return "single", f"{mdp.n_states:,} states: corrections take half the time"

    def correction(self) -> Choice:
        asked = self.requests.get("correction")
        if asked is not None:
            return asked, "as asked"
        if not isinstance(self.mdp.criterion, Average):
            return "none", "only averages use one"
        n = self.mdp.n_states
        if n <= self.thresholds.coarse_min_states:
            return "none", f"{n:,} states: linear systems are quick as they are"
        return "coarse", f"{n:,} states: averages mix slowly"

    def tiles(self, representation: str, n_devices: int) -> tuple[TileSizes | None, str]:
        if "tiles" in self.requests:
            return self.requests["tiles"], "as asked"
        if representation == "rows":
            return None, "rows have none"
        dynamics = self.mdp.dynamics
        shape = (
            dynamics.periods[0].shape
            if isinstance(dynamics, FiniteHorizonDynamics)
            else dynamics.shape
        )
        if n_devices > 1:
            from tessella.mdp.stages.sharded import require_partition

            assert isinstance(dynamics, Staged)
            shape = block_shape(dynamics, require_partition(dynamics, n_devices))
        return choose_tiles(shape, self.thresholds)

    def certificate(self) -> Choice:
        asked = self.requests.get("certificate")
        if asked is not None:
            return asked, "as asked"
        return "whole", "it bounds every state and can be checked; blocks give figures alone"

    def rules(self) -> Choice:
        asked = self.requests.get("rules")
        if asked is not None:
            return asked, "as asked"
        t = self.thresholds
        n = self.mdp.n_states
        entries = n * n * self.mdp.n_actions
        if n <= t.dense_rules_max_states and entries <= t.dense_rules_max_entries:
            return "dense", f"{entries:,} entries: candidates share one inverse"
        return "iterative", f"{entries:,} entries would be dense rows"


def max_table_entries(dynamics: Dynamics) -> int:
    """Probabilities of the largest table that the model has or is made into, counted from above."""
    periods = (
        dynamics.distinct_periods if isinstance(dynamics, FiniteHorizonDynamics) else [dynamics]
    )
    tables = [period.rows.nnz for period in periods if isinstance(period, Tabular)]
    staged = [period.max_row_entries for period in periods if isinstance(period, Staged)]
    return max([*tables, *staged], default=0)


def count_table_entries(dynamics: Dynamics) -> int:
    """Probabilities of the largest table, which is made for this where it is not given."""
    periods = (
        dynamics.distinct_periods if isinstance(dynamics, FiniteHorizonDynamics) else [dynamics]
    )
    tables = [period.as_rows() for period in periods]
    return max((table.rows.nnz for table in tables if isinstance(table, Tabular)), default=0)


def choose_representation(dynamics: Staged, t: Thresholds) -> Choice:
    """Rows or stages: a table that must be small, or was made and is. Kept for each threshold."""
    return dynamics.prepare(("representation", t), lambda: _choose_representation(dynamics, t))


def _choose_representation(dynamics: Staged, t: Thresholds) -> Choice:
    states = f"{dynamics.context.grid.size:,} states"
    if dynamics.max_row_entries <= t.rows_max_entries:
        return "rows", f"{states}, at most {dynamics.max_row_entries:,} entries"
    is_heavy = dynamics.sweep_products >= t.heavy_sweep_products
    max_entries = t.rows_max_entries
    if is_heavy:
        max_entries = min(dynamics.sweep_products, t.heavy_rows_max_entries)
    if not _rows_are_affordable(dynamics, max_entries, t):
        return "stages", f"{states}: their rows would be too many to make"
    estimate = dynamics.estimate_row_entries(t.sampled_states, t.sampled_actions)
    if estimate > max_entries:
        return "stages", f"{states}, about {estimate:,} entries"
    rows = dynamics.as_rows(t.entry_estimate_slack * max_entries)
    if rows is None:
        return "stages", f"{states}: rows turned out longer than estimated"
    return "rows", f"{states}, {rows.rows.nnz:,} entries, fewer than products through stages"


def _rows_are_affordable(dynamics: Staged, max_entries: int, t: Thresholds) -> bool:
    """Whether looking for its rows takes little time and memory, however long they are."""
    each = dynamics.stage_outcomes
    shortest = dynamics.context.grid.size * dynamics.n_actions * t.row_min_entries
    return (
        shortest <= max_entries
        and max(each) <= t.stage_max_outcomes
        and sum(each) * dynamics.n_actions <= t.period_max_outcomes
    )


def choose_period_representation(dynamics: FiniteHorizonDynamics, t: Thresholds) -> Choice:
    """Rows where every period is a table, or few enough numbers to be made into one."""
    staged = [period for period in dynamics.distinct_periods if isinstance(period, Staged)]
    # A table may be held as dense.
    cells = min(dynamics.final.size**2 * dynamics.n_actions, t.dense_rows_max_entries)
    entries = sum(max(period.max_row_entries, cells) for period in staged)
    n_periods = len(dynamics.distinct_periods)
    count = "1 distinct period" if n_periods == 1 else f"{n_periods:,} distinct periods"
    if entries > t.period_rows_max_entries:
        return "stages", f"{count}, up to {entries:,} entries"
    if any(choose_representation(period, t)[0] == "stages" for period in staged):
        return "stages", f"{count}, of which some are large"
    return "rows", f"{count}, at most {entries:,} entries"


def choose_row_layout(t: Thresholds, rows: Any, n_pairs: int) -> RowLayout:
    """How NumPy holds these sparse rows (U, S) of so many pairs of states and actions."""
    entries = rows.nnz
    cells = rows.shape[0] * rows.shape[1]
    is_dense = cells <= max(t.dense_rows_max_entries, entries / DENSE_MIN_SHARE)
    cheap = max(t.cheap_sweep_max_entries, t.short_row_entries * n_pairs)
    return RowLayout(
        dense=is_dense,
        sweeps_are_cheap=n_pairs <= t.all_actions_max_pairs and entries <= cheap,
        solves_iteratively=not is_dense and entries >= t.long_row_entries * rows.shape[0],
        iterations_max_steps=t.iterations_max_steps,
        dense_solve_max_states=t.dense_solve_max_states,
    )


def choose_tiles(shape: tuple[int, ...], t: Thresholds) -> tuple[TileSizes | None, str]:
    """How kernels cut a grid of this shape on the present device; None where plain forms do."""
    states = math.prod(shape)
    if states < t.tiled_min_states:
        return None, f"{states:,} states: plain forms are enough"
    if states > TILED_MAX_STATES or shape[-1] < TILED_MIN_LAST_AXIS:
        return None, f"the grid's shape {shape} makes poor tiles"
    import jax

    if jax.default_backend() not in TILED_PLATFORMS:
        return None, f"there is no accelerator, only {jax.default_backend()}"
    return TileSizes(), f"{states:,} states on an accelerator"


def choose_devices(mdp: MDP, count: int | None, t: Thresholds) -> tuple[tuple[Any, ...], str]:
    """The devices that share a model; none where one does all of it.

    Without a ``count`` it is all accelerators, for a large model that can be cut among them.
    """
    if count is None:
        if mdp.n_states < t.accelerator_min_states:
            return (), f"{mdp.n_states:,} states: one device is enough"
        return _find_accelerators(mdp)
    require_whole("devices", count, 1)
    if count == 1:
        return (), "as asked"
    if not _supports_sharding(mdp):
        raise ArgumentError(
            "several devices serve models of stages with discounted rewards",
            value=f"this is {mdp.dynamics.kind}, {mdp.criterion}",
        )
    return _take_devices(count), "as asked"


def _supports_sharding(mdp: MDP) -> bool:
    return isinstance(mdp.dynamics, Staged) and isinstance(mdp.criterion, Discounted)


def _take_devices(count: int) -> tuple[Any, ...]:
    import jax

    devices = jax.devices()
    if count > len(devices):
        raise ArgumentError(
            "there must be as many devices as a model is cut among",
            value=f"got {count}, and JAX sees {len(devices)} ({devices[0].platform})",
        )
    return tuple(devices[:count])


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
