"""The cost of an action late in the period: time of one backup, as a multiple of the fastest.

    python benchmarks/late_actions.py [--stock 5000]

q(s, a) is an expectation over the stages before the one that acts, and the best action is chosen at
the start, outside of that expectation: max_a E[x_a] is not E[max_a x_a]. So stages before the last
acting one are done for each action; those after it are done once (``shared_backup``). The compiler
spares that one, too, where it acts only by what it pays: the expectation in it knows no action.
"""

from __future__ import annotations

import argparse
import time

import numpy as np

N_ACTIONS, N_DEMANDS, N_REGIMES, REPETITIONS = 11, 21, 101, 7


def list_stage_orders(last: int) -> dict[str, list]:
    """The same events in other orders, and the same cost of ordering in other stages."""
    import tessella as ts

    demand = ts.Noise(
        "demand",
        range(N_DEMANDS),
        lambda regime: ts.truncated_poisson(4 + 0.1 * regime, N_DEMANDS - 1),
    )
    turn = ts.Noise("turn", [-1, 0, 1], [0.25, 0.5, 0.25])

    def cost(order):
        return -1.0 * order

    def sales(stock, demand):
        return 2.0 * np.minimum(stock, demand) - 0.1 * stock

    def order(pays=None):
        return ts.Decide("stock", lambda stock, order: np.minimum(stock + order, last), pays)

    def sell(pays=sales):
        return ts.Shift("stock", demand, lambda demand: -demand, pays=pays)

    def both(stock, demand, order):
        return sales(stock, demand) + cost(order)

    regime = ts.Shift("regime", turn)
    return {
        "order first": [order(cost), sell(), regime],
        "order first, paid with the sales": [order(), sell(both), regime],
        "order first, paid at the end": [order(), sell(), regime, ts.Pay(cost)],
        "order last": [sell(), regime, order(cost)],
    }


def time_backup(mdp) -> float:
    """CPU seconds of one maximum over actions, the least of several."""
    import jax
    import jax.numpy as jnp

    from tessella.mdp.compilation import in_float64
    from tessella.mdp.dynamics import fold_actions

    @in_float64
    def measure() -> float:
        backend = mdp.dynamics.backend_model.backend
        arrays = mdp.dynamics.backend_model.arrays

        @jax.jit
        def backup(arrays, w):
            shared = backend.shared_backup(arrays, w, True)

            def better(action, best):
                return jnp.maximum(best, backend.action_backup(arrays, shared, action, True))

            return fold_actions(backend, better, jnp.full(w.shape, -jnp.inf))

        w, seconds = jnp.zeros(mdp.grid.shape), []
        for _ in range(REPETITIONS + 1):  # the first one compiles
            start = time.process_time()
            backup(arrays, w).block_until_ready()
            seconds.append(time.process_time() - start)
        return min(seconds[1:])

    return measure()


def main() -> None:
    import tessella as ts

    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--stock", type=int, default=5000)
    last = parser.parse_args().stock
    grid = {"stock": range(last + 1), "regime": range(N_REGIMES)}
    fastest = None
    for name, stages in list_stage_orders(last).items():
        mdp = ts.MDP.staged(grid, range(N_ACTIONS), 0.95, stages, action_name="order")
        seconds = time_backup(mdp)
        fastest = fastest or seconds
        print(f"{name:34} {1e3 * seconds:8.1f} ms  {seconds / fastest:5.1f}")


if __name__ == "__main__":
    main()
