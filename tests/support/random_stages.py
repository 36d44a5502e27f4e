"""Random staged models of any structure: axes, actions, up to four stages, whatever they depend on.

Each new structure compiles for seconds, so they are for ``make soak``, and ``NUMBERS`` seeds in a
row share one structure with other numbers. ``awkward`` has the few structures for the tests.
"""

from __future__ import annotations

import numpy as np

from support.awkward import Case, build_staged
from support.draws import Draws, make_lookup, set_parameters
from support.exact import World
from tessella.mdp.stages import Decide, Jump, Move, Noise, Pay, Shift

MAX_STATES = 48  # states
SEEDS_PER_STRUCTURE = 8


class StageDraws:
    """One random model in the making: ``rng`` draws its structure, ``draws`` its numbers."""

    def __init__(self, draws: Draws, rng: np.random.Generator) -> None:
        self.d, self.rng = draws, rng
        shape = self.rng.integers(1, 6, size=self.rng.integers(1, 4))
        while np.prod(shape) > MAX_STATES:
            shape[shape.argmax()] -= 1
        self.axes = {f"x{i}": range(n) for i, n in enumerate(shape.tolist())}
        self.n_actions = int(self.rng.integers(1, 5))
        self.sizes = {name: len(values) for name, values in self.axes.items()}
        self.sizes["action"] = self.n_actions

    def draw_sizes(self, names) -> dict[str, int]:
        return {name: self.sizes[name] for name in names if self.rng.random() < 0.4}

    def draw_payment(self, noise: str = "", chances=None):
        """A reward of some names, perhaps of the noise; perhaps none."""
        if self.rng.random() < 0.3:
            return None
        sizes = self.draw_sizes(self.sizes)
        if chances is None or self.rng.random() < 0.3:
            return make_lookup(list(sizes), self.d.draw_rewards(list(sizes.values())))
        lengths = [*sizes.values(), len(chances)]
        return make_lookup([*sizes, noise], self.d.draw_rewards(lengths, chances))

    def draw_noise(self) -> tuple[Noise, np.ndarray]:
        return self.d.draw_law("w", int(self.rng.integers(1, 5)), self.draw_sizes(self.sizes))

    def draw_stage(self, kind: str):
        axis = str(self.rng.choice(list(self.axes)))
        return getattr(self, kind)(axis, self.sizes[axis])

    def pay(self, axis: str, n: int) -> Pay:
        sizes = self.draw_sizes(self.sizes)
        return Pay(make_lookup(list(sizes), self.d.draw_rewards(list(sizes.values()))))

    def decide(self, axis: str, n: int) -> Decide:
        sizes = self.draw_sizes(self.sizes)
        to = self.d.rng.integers(n, size=list(sizes.values()))
        return Decide(axis, make_lookup(list(sizes), to), self.draw_payment())

    def shift(self, axis: str, n: int) -> Shift:
        law, chances = self.draw_noise()
        sizes = {"w": len(chances)} | self.draw_sizes(["action"])
        by = self.rng.integers(-6, 7, size=list(sizes.values()))
        edge = ("clip", "reflect", "wrap")[self.rng.integers(3)]
        return Shift(axis, law, make_lookup(list(sizes), by), edge, self.draw_payment("w", chances))

    def move(self, axis: str, n: int) -> Move:
        sizes = self.draw_sizes([name for name in self.sizes if name != axis])
        table = self.d.draw_rows([*sizes.values(), n], n)
        if not sizes:
            return Move(axis, table, self.draw_payment())
        look_up = make_lookup(list(sizes), table)

        def matrix(**values):
            return look_up(**{name: np.asarray(v)[..., 0, 0] for name, v in values.items()})

        return Move(axis, set_parameters(matrix, sizes), self.draw_payment())

    def jump(self, axis: str, n: int) -> Jump:
        law, chances = self.draw_noise()
        targets = list(self.draw_sizes(self.axes)) or [axis]
        sizes = self.draw_sizes(self.sizes) | {"w": len(chances)}
        maps = {
            name: make_lookup(
                list(sizes), self.d.rng.integers(self.sizes[name], size=list(sizes.values()))
            )
            for name in targets
        }

        def to(**values):
            return {name: look_up(**values) for name, look_up in maps.items()}

        return Jump(law, set_parameters(to, sizes), self.draw_payment("w", chances))


def make_staged_case(seed: int) -> Case:
    """The staged model with this seed."""
    draws = Draws(np.random.default_rng(seed))
    rng = np.random.default_rng([seed // SEEDS_PER_STRUCTURE, SEEDS_PER_STRUCTURE])
    structure = StageDraws(draws, rng)
    kinds = rng.choice(["pay", "decide", "shift", "move", "jump"], size=rng.integers(1, 5))
    stages = [structure.draw_stage(str(kind)) for kind in kinds]
    n = int(np.prod([len(values) for values in structure.axes.values()]))
    world = World(
        structure.axes, range(structure.n_actions), draws.draw_mask(n, structure.n_actions)
    )
    return Case("staged", seed, *build_staged(draws, world, stages))
