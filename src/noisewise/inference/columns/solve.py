"""From noisy moments to draws: chains of many groups together, and what they say of themselves."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from noisewise.inference.certificate import Certificate
from noisewise.inference.chains import Chains
from noisewise.inference.columns import hamiltonian
from noisewise.inference.columns.models import Model
from noisewise.inference.columns.target import Point, Target
from noisewise.inference.methods import diagnostics
from noisewise.model.arrays import FloatArray

NAME = "hamiltonian"
"""Of the method, in the certificate."""
ALONE, TOGETHER = 32, 8
"""Chains of one group, and of each of many: NumPy takes hardly longer for 64 rows than for 4."""
FEWEST_STEPS = 128
"""Of each chain after the warm-up: R-hat of shorter ones is above 1 by chance alone."""
BATCH = 64
"""Groups that are sampled together: more do not fit the processor's cache."""
MOST_BLOCKS = 10
"""Chains that have not mixed go on, so many times as long at most."""
GOOD_RHAT, BAD_RHAT = 1.04, 1.1
"""Chains that agree so well have mixed; of those that agree worse, the first steps are left out."""
GOOD_ESS = 400.0
"""Independent draws that the chains must be worth."""
Progress = Callable[[float], None]


@dataclass(frozen=True)
class Draws(Chains):
    """Draws, and what the method says of them."""

    reason: str
    cautions: tuple[str, ...] = ()
    assumptions: tuple[str, ...] = ()
    kept: tuple[float, float] | None = None

    def certificate(self) -> Certificate:
        found = diagnostics.of(np.concatenate(self.values, axis=2))
        return Certificate(
            NAME,
            self.reason,
            rhat=float(found.rhat.max()),
            ess=float(found.ess.min()),
            assumptions=self.assumptions,
            cautions=self.cautions,
            records_kept=self.kept,
        )


@dataclass(frozen=True, slots=True)
class Sampled:
    """One group's draws of the model's parameters, (steps, chains, ...) each, and the points they
    belong to.
    """

    parameters: list[FloatArray]
    point: Point


def run(
    target: Target,
    generators: Sequence[np.random.Generator],
    draws: int,
    progress: Progress | None = None,
) -> list[Sampled]:
    """Every group, in batches."""
    groups = len(generators)
    chains = ALONE if groups * TOGETHER <= ALONE else TOGETHER
    steps = max(FEWEST_STEPS, -(-draws // chains))
    out: list[Sampled] = []
    with np.errstate(all="ignore"):  # a proposal may lie beyond the floats; it is not kept
        for start in range(0, groups, BATCH):
            chosen = np.arange(start, min(start + BATCH, groups))

            def tick(share: float, start: int = start, size: int = chosen.size) -> None:
                if progress is not None:
                    progress((start + share * size) / groups)

            own = [generators[g] for g in chosen.tolist()]
            out += _batch(target.take(chosen), own, chains, steps, tick)
    return out


def _batch(
    target: Target,
    generators: Sequence[np.random.Generator],
    chains: int,
    steps: int,
    tick: Progress,
) -> list[Sampled]:
    """Some groups together; chains that have not mixed go on."""
    sampler = hamiltonian.Sampler(target, generators, chains)
    found: dict[int, Sampled] = {}
    held: dict[int, list[FloatArray]] = {g: [] for g in range(len(generators))}
    todo = list(held)
    for block in range(MOST_BLOCKS):
        x = sampler.go(steps)
        tick((block + 1) / (block + 2))
        again = []
        for place, g in enumerate(todo):
            held[g].append(x[place])
            found[g] = _drawn(target, np.concatenate(held[g]), g, sampler.generators[place])
            rhat, ess = _mixing(found[g])
            if rhat > BAD_RHAT:  # some chains have only now arrived
                held[g] = held[g][1:]
            if not (rhat < GOOD_RHAT and ess > GOOD_ESS):
                again.append(place)
        if not again:
            break
        todo = [todo[place] for place in again]
        sampler.only(again)
    return [found[g] for g in range(len(generators))]


def _mixing(sampled: Sampled) -> tuple[float, float]:
    """R-hat and the number of independent draws that its chains are worth, the worst of all."""
    told = diagnostics.of(np.concatenate(sampled.parameters, axis=2))
    return float(told.rhat.max()), float(told.ess.min())


def _drawn(target: Target, x: FloatArray, group: int, rng: np.random.Generator) -> Sampled:
    steps, chains, d = x.shape
    flat = x.reshape(-1, d)
    point = target.take(np.full(len(flat), group)).at(flat)
    model: Model = target.model
    found = model.draw(rng, point.mean, point.root, point.size, point.own)
    return Sampled([one.reshape(steps, chains, -1) for one in found], point)
