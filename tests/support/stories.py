"""Random staged models of any structure: axes, actions, up to four stages, whatever they depend on.

Each new structure compiles for seconds, so these are for ``make soak``, and ``NUMBERS`` seeds in a
row share one structure with other numbers. ``awkward`` has the few structures for the tests.
"""

from __future__ import annotations

import numpy as np

from support.awkward import Case, staged
from support.draws import Draws, depends, signed
from support.exact import World
from tessella.mdp.stages import Decide, Jump, Move, Noise, Pay, Shift

LARGEST = 48  # states
NUMBERS = 8


class Story:
    """One random model in the making: ``rng`` draws its structure, ``draws`` its numbers."""

    def __init__(self, draws: Draws, rng: np.random.Generator) -> None:
        self.d, self.rng = draws, rng
        shape = self.rng.integers(1, 6, size=self.rng.integers(1, 4))
        while np.prod(shape) > LARGEST:
            shape[shape.argmax()] -= 1
        self.axes = {f"x{i}": range(n) for i, n in enumerate(shape.tolist())}
        self.n_actions = int(self.rng.integers(1, 5))
        self.sizes = {name: len(values) for name, values in self.axes.items()}
        self.sizes["action"] = self.n_actions

    def some(self, names) -> dict[str, int]:
        return {name: self.sizes[name] for name in names if self.rng.random() < 0.4}

    def pays(self, noise: str = "", chances=None):
        """A reward of some names, perhaps of the noise; perhaps none."""
        if self.rng.random() < 0.3:
            return None
        sizes = self.some(self.sizes)
        if chances is None or self.rng.random() < 0.3:
            return depends(list(sizes), self.d.rewards(list(sizes.values())))
        lengths = [*sizes.values(), len(chances)]
        return depends([*sizes, noise], self.d.rewards(lengths, chances))

    def law(self) -> tuple[Noise, np.ndarray]:
        return self.d.law("w", int(self.rng.integers(1, 5)), self.some(self.sizes))

    def stage(self, kind: str):
        axis = str(self.rng.choice(list(self.axes)))
        return getattr(self, kind)(axis, self.sizes[axis])

    def pay(self, axis: str, n: int) -> Pay:
        sizes = self.some(self.sizes)
        return Pay(depends(list(sizes), self.d.rewards(list(sizes.values()))))

    def decide(self, axis: str, n: int) -> Decide:
        sizes = self.some(self.sizes)
        to = self.d.rng.integers(n, size=list(sizes.values()))
        return Decide(axis, depends(list(sizes), to), self.pays())

    def shift(self, axis: str, n: int) -> Shift:
        law, chances = self.law()
        sizes = {"w": len(chances)} | self.some(["action"])
        by = self.rng.integers(-6, 7, size=list(sizes.values()))
        edge = ("clip", "reflect", "wrap")[self.rng.integers(3)]
        return Shift(axis, law, depends(list(sizes), by), edge, self.pays("w", chances))

    def move(self, axis: str, n: int) -> Move:
        sizes = self.some([name for name in self.sizes if name != axis])
        table = self.d.rows([*sizes.values(), n], n)
        if not sizes:
            return Move(axis, table, self.pays())
        look_up = depends(list(sizes), table)

        def matrix(**given):
            return look_up(**{name: np.asarray(v)[..., 0, 0] for name, v in given.items()})

        return Move(axis, signed(matrix, sizes), self.pays())

    def jump(self, axis: str, n: int) -> Jump:
        law, chances = self.law()
        moved = list(self.some(self.axes)) or [axis]
        sizes = self.some(self.sizes) | {"w": len(chances)}
        maps = {
            name: depends(
                list(sizes), self.d.rng.integers(self.sizes[name], size=list(sizes.values()))
            )
            for name in moved
        }

        def to(**given):
            return {name: look_up(**given) for name, look_up in maps.items()}

        return Jump(law, signed(to, sizes), self.pays("w", chances))


def story(seed: int) -> Case:
    """The staged model with this seed."""
    draws = Draws(np.random.default_rng(seed))
    rng = np.random.default_rng([seed // NUMBERS, NUMBERS])
    told = Story(draws, rng)
    kinds = rng.choice(["pay", "decide", "shift", "move", "jump"], size=rng.integers(1, 5))
    stages = [told.stage(str(kind)) for kind in kinds]
    n = int(np.prod([len(values) for values in told.axes.values()]))
    world = World(told.axes, range(told.n_actions), draws.mask(n, told.n_actions))
    return Case("staged", seed, *staged(draws, world, stages))
