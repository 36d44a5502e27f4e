"""The numbers by which plans choose routes, with units and the benchmarks that set them.

``execution_plan`` decides by them before a run. A plan with other numbers takes other routes to the
same answer: ``plan.using(thresholds=Thresholds(...))``. Limits of one algorithm alone, such as the
size of a coarse grid, are constants in its file.
"""

from __future__ import annotations

from dataclasses import dataclass
from numbers import Real

from tessella.errors import ArgumentError


@dataclass(frozen=True)
class Thresholds:
    """The numbers by which routes are chosen.

    Example:
        >>> plan = ts.plan(ts.benchmark("QUE-Lin"), calibrate=False)
        >>> plan.using(thresholds=ts.Thresholds(rows_max_entries=0)).representation
        'stages'
    """

    # Rows or stages (benchmarks/solve.py). Rows are built if they have few probabilities. More are
    # allowed where a sweep through stages is heavy, rows have fewer entries than it has products,
    # and building them costs little. Rows that pairs share weigh more: they save stages work, too.
    rows_max_entries: int = 1 << 20  # probabilities of all rows
    distinct_row_weight: int = 4  # weight of the entries of a row that several pairs share
    heavy_sweep_products: int = 1 << 24  # products from which on a sweep through stages is heavy
    heavy_rows_max_entries: int = 1 << 24  # probabilities of all rows where it is
    row_min_entries: int = 16  # entries that a row is assumed to have before any is built
    # Large models whose discount weighs many periods stay stages (benchmarks/discounts.py).
    many_periods: float = 50.0  # 1 / (1 - discount), at least
    stage_max_outcomes: int = 1 << 24  # outcomes in all states of one stage
    period_max_outcomes: int = 1 << 27  # outcomes of all stages and actions
    sampled_states: int = 256  # states whose rows show how long rows are
    sampled_actions: int = 3  # actions of these states
    entry_estimate_slack: int = 2  # multiples of the estimated entries at which building rows ends
    period_rows_max_entries: int = 1 << 22  # probabilities of all distinct periods of a horizon
    # JAX runs a table on an accelerator, and a horizon one period at a time.
    accelerator_min_entries: int = 1_000_000  # probabilities of a table
    vectorised_max_states: int = 1 << 21  # states and times that are swept all at once
    # Rows by NumPy (benchmarks/rivals). Beyond some 9,000 entries a dense product is
    # shared among threads, which wait for one another; below, a sparse product starts slowly.
    dense_rows_max_entries: int = 1 << 13  # entries of rows that are multiplied as dense
    long_row_entries: int = 10  # entries of a row, on average: linear systems are then iterated
    dense_solve_max_states: int = 90  # states up to which a linear system is solved as a dense one
    # Entries whose product takes little longer than its calls.
    cheap_sweep_max_entries: int = 1 << 18
    short_row_entries: int = 4  # entries for each pair: policies of such models settle late
    all_actions_max_pairs: int = 1 << 20  # pairs whose action values are held at once
    # Precision and method (benchmarks/methods.py).
    # States from which on single precision, coarse grids and rougher occupancies pay.
    large_min_states: int = 10_000
    # States up to which a discounted model gets a coarse grid: beyond, the nodes that can be
    # afforded are too far apart (benchmarks/discounts.py; on an accelerator, --accelerator).
    coarse_max_states: int = 1 << 22
    accelerator_coarse_max_states: int = 1 << 27
    # Bytes of an accelerator's memory for each state of a model with a coarse grid.
    accelerator_coarse_state_bytes: int = 240
    # Sweeps of a policy that cost as much as one over all actions: up to these, MixedPrecision.
    mixed_max_sweep_ratio: int = 8
    small_forcing: float = 1e-2  # share of the residual that an evaluation of a small model leaves
    large_forcing: float = 1e-1  # share of the residual that one of a large model leaves
    # Proofs of a policy (benchmarks/slices.py).
    proof_max_sweeps: int = 400  # sweeps of a proof: if it takes more, values are solved for
    proof_trial_sweeps: int = 32  # sweeps that show how many a proof will take
    dense_exogenous_share: float = 1 / 8  # of entries not 0: from here on a matrix K is dense
    # Accelerators (benchmarks/billion.py): states from which on they are used in full, and kernels
    # cut the grid, or a block of it, into tiles.
    accelerator_min_states: int = 1 << 22
    # Terms of MixedPrecision's sums there: what is in double precision between them costs more.
    accelerator_correction_terms: int = 64
    # Certificates (benchmarks/certify.py) and rules (benchmarks/rules.py).
    blocks_min_states: int = 1_000_000  # states from which on a certificate is computed in blocks
    dense_rules_max_states: int = 2_000  # states up to which candidate rules share dense rows
    dense_rules_max_entries: int = 60_000_000  # entries of these rows, at most

    def __post_init__(self) -> None:
        for name, value in vars(self).items():
            if not isinstance(value, Real) or not value >= 0:  # type: ignore[operator]
                requirement = f"{name} must be a number, at least 0"
                raise ArgumentError(requirement, value=f"got {value!r:.60}")


DEFAULT_THRESHOLDS = Thresholds()
