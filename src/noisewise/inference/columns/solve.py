"""From noisy moments to draws: chains of many groups together, and what they say of themselves."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from noisewise.inference.certificate import Certificate
from noisewise.inference.columns import hamiltonian
from noisewise.inference.columns.models import Model
from noisewise.inference.columns.target import Point, Target
from noisewise.inference.methods import diagnostics
from noisewise.inference.solution import Solution
from noisewise.model.arrays import FloatArray

NAME = "hamiltonian"
"""Of the method, in the certificate."""
ALONE, TOGETHER = 64, 16
"""Chains of one group, and of each of many: NumPy takes hardly longer for 64 rows than for 4."""
FEWEST_STEPS = 64
"""Of each chain after the warm-up."""
BATCH = 32
"""Groups that are sampled together: more do not fit the processor's cache."""
PATIENCE = (1, 3, 9)
"""Chains that have not mixed begin anew, so many times as long."""
GOOD_RHAT, GOOD_ESS = 1.03, 800.0
"""Chains have mixed if they agree so well, and are worth so many independent draws."""
Progress = Callable[[float], None]


@dataclass(frozen=True)
class Draws(Solution):
    """Draws of every parameter, (steps, chains, size) each, and what the method says of them."""

    values: list[FloatArray]
    reason: str
    cautions: tuple[str, ...] = ()
    assumptions: tuple[str, ...] = ()
    kept: tuple[float, float] | None = None

    def _of(self, parameter: int) -> FloatArray:
        values = self.values[parameter]
        return values.reshape(-1, values.shape[2])

    def moments(self, parameter: int) -> tuple[FloatArray, FloatArray]:
        flat = self._of(parameter)
        return flat.mean(axis=0), flat.std(axis=0)

    def quantile(self, parameter: int, q: FloatArray) -> FloatArray:
        return np.asarray(np.quantile(self._of(parameter), q, axis=0))

    def cdf(self, parameter: int, x: FloatArray) -> FloatArray:
        return np.asarray((self._of(parameter) <= x[..., None, :]).mean(axis=-2))

    def draw(self, rng: np.random.Generator, size: int) -> list[FloatArray]:
        total = self.values[0].shape[0] * self.values[0].shape[1]
        if size <= total:
            rows = np.floor(np.arange(size) * total / size).astype(np.int64)
        else:
            rows = rng.integers(total, size=size)
        chosen = [self._of(j)[rows] for j in range(len(self.values))]
        return [values[:, 0] if values.shape[1] == 1 else values for values in chosen]

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
    """Some groups together; those whose chains have not mixed begin anew."""
    found: dict[int, Sampled] = {}
    todo = list(range(len(generators)))
    for patience in PATIENCE:
        part, own = target.take(np.array(todo)), [generators[g] for g in todo]
        x = hamiltonian.sample(part, own, chains, patience * steps, patience, tick).x
        for place, g in enumerate(todo):
            found[g] = _drawn(part, x[place], place, own[place])
        todo = [g for g in todo if not _mixed(found[g])]
        if not todo:
            break
    return [found[g] for g in range(len(generators))]


def _mixed(sampled: Sampled) -> bool:
    """Whether its chains agree."""
    told = diagnostics.of(np.concatenate(sampled.parameters, axis=2))
    enough = min(GOOD_ESS, sampled.parameters[0].shape[0] * sampled.parameters[0].shape[1] / 3)
    return bool(told.rhat.max() < GOOD_RHAT and told.ess.min() > enough)


def _drawn(target: Target, x: FloatArray, group: int, rng: np.random.Generator) -> Sampled:
    steps, chains, d = x.shape
    flat = x.reshape(-1, d)
    point = target.take(np.full(len(flat), group)).at(flat)
    model: Model = target.model
    found = model.draw(rng, point.mean, point.root, point.size, point.own)
    return Sampled([one.reshape(steps, chains, -1) for one in found], point)
