"""mdpax: states, actions and random events as functions in JAX, so structured models only.

In the nine small inputs, the next state is the random event.
"""

import jax
import jax.numpy as jnp
import numpy as np
from mdpax.core.problem import Problem
from mdpax.solvers.relative_value_iteration import RelativeValueIteration
from mdpax.solvers.value_iteration import ValueIteration
from models import (
    FIXED_COST,
    HOLDING_COST,
    MAX_DEMAND,
    ORDERS,
    SHORTAGE_COST,
    UNIT_COST,
    compute_demand_law,
    compute_walk_law,
)

jax.config.update("jax_enable_x64", True)
MAX_ITERATIONS = 100_000  # None for the package's own limit


class Inventory(Problem):
    def __init__(self, stock, regime):
        self.stock, self.regime = stock, regime
        self.law, self.walk = (
            jnp.asarray(compute_demand_law(regime + 1)),
            jnp.asarray(compute_walk_law(regime + 1)),
        )
        super().__init__()

    @property
    def name(self):
        return "inventory"

    def _construct_state_space(self):
        x, z = np.divmod(np.arange((self.stock + 1) * (self.regime + 1)), self.regime + 1)
        return jnp.stack([x, z], axis=1)

    def state_to_index(self, state):
        return state[0] * (self.regime + 1) + state[1]

    def _construct_action_space(self):
        return jnp.asarray(ORDERS)

    def _construct_random_event_space(self):
        k, step = np.divmod(np.arange(3 * (MAX_DEMAND + 1)), 3)
        return jnp.stack([k, step], axis=1)

    def random_event_probability(self, state, action, random_event):
        return self.law[state[1], random_event[0]] * self.walk[state[1], random_event[1]]

    def transition(self, state, action, random_event):
        order = action[0]
        level = jnp.minimum(state[0] + order, self.stock)
        left = jnp.maximum(level - random_event[0], 0)
        short = jnp.maximum(random_event[0] - level, 0)
        z = jnp.clip(state[1] + random_event[1] - 1, 0, self.regime)
        cost = (
            HOLDING_COST * left
            + SHORTAGE_COST * short
            + UNIT_COST * order
            + FIXED_COST * (order > 0)
        )
        return jnp.stack([left, z]), -cost

    def get_problem_config(self):
        raise NotImplementedError


class Table(Problem):
    def __init__(self, pairs):
        self.law = jnp.asarray(np.stack([rows.toarray() for rows in pairs.split_by_action()]))
        self.reward = jnp.asarray(pairs.make_reward_table())
        super().__init__()

    @property
    def name(self):
        return "table"

    def _construct_state_space(self):
        return jnp.arange(self.law.shape[1])[:, None]

    def state_to_index(self, state):
        return state[0]

    def _construct_action_space(self):
        return jnp.arange(self.law.shape[0])[:, None]

    def _construct_random_event_space(self):
        return jnp.arange(self.law.shape[1])[:, None]

    def random_event_probability(self, state, action, random_event):
        return self.law[action[0], state[0], random_event[0]]

    def transition(self, state, action, random_event):
        return random_event, self.reward[state[0], action[0]]

    def get_problem_config(self):
        raise NotImplementedError


def build(model):
    if model.kind == "inventory":
        return Inventory(*model.settings), model.discount
    if model.kind != "faulty":
        raise NotImplementedError("mdpax takes functions, not rows")
    return Table(model.build_pairs()), model.discount


def solve(built, tol):
    problem, discount = built
    if discount == 1:
        solver = RelativeValueIteration(problem, epsilon=tol, verbose=0)
    else:
        solver = ValueIteration(problem, gamma=discount, epsilon=tol, verbose=0)
    result = solver.solve(**({"max_iterations": MAX_ITERATIONS} if MAX_ITERATIONS else {}))
    policy = np.searchsorted(ORDERS, np.asarray(result.policy).ravel())
    return np.atleast_1d(np.asarray(result.info.gain if discount == 1 else result.values)), policy
