"""From noisy moments to draws: chains of many groups together, and what they say of themselves."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from noisewise.inference.certificate import Certificate
from noisewise.inference.chains import Chains
from noisewise.inference.columns import hamiltonian
from noisewise.inference.columns.model import Model
from noisewise.inference.columns.target import Point, Target
from noisewise.inference.methods import diagnostics
from noisewise.model.arrays import FloatArray

NAME = "hamiltonian"
"""Of the method, in the certificate."""
ALONE, TOGETHER = 32, 8
"""Chains of one group, and of each of many: NumPy takes hardly longer for 64 rows than for 4."""
FEWEST_STEPS = 128
"""Of each chain after the warm-up: R-hat of shorter ones is above 1 by chance alone."""
BATCH = 256
"""Groups that are sampled together: more do not fit the processor's cache."""
PIECE = 256
"""Groups that one process is given at a time, where there are more: it starts within a second,
and they take it many."""
MOST_BLOCKS = 11
"""Chains that have not mixed go on, half as long each time, so many times at most."""
GOOD_RHAT, BAD_RHAT = 1.04, 1.1
"""Chains that agree so well have mixed; of those that agree worse, the first steps are left out."""
GOOD_ESS = 400.0
"""Independent draws that the chains must be worth, or as many as are asked for if these are
fewer."""
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
    """Every group; of many groups, pieces on every core."""
    groups = len(generators)
    if groups <= PIECE:
        return _piece(target, generators, draws, progress)
    import joblib

    starts = range(0, groups, PIECE)
    pieces = [np.arange(start, min(start + PIECE, groups)) for start in starts]
    work = [
        joblib.delayed(_piece)(target.take(piece), [generators[g] for g in piece.tolist()], draws)
        for piece in pieces
    ]
    out: list[Sampled] = []
    for found in joblib.Parallel(n_jobs=-1, return_as="generator")(work):
        out += found
        if progress is not None:
            progress(len(out) / groups)
    return out


def _piece(
    target: Target,
    generators: Sequence[np.random.Generator],
    draws: int,
    progress: Progress | None = None,
) -> list[Sampled]:
    """Some groups, in batches; those whose chains have not mixed go on together."""
    groups = len(generators)
    chains = ALONE if groups * TOGETHER <= ALONE else TOGETHER
    steps = max(FEWEST_STEPS, -(-draws // chains))
    found: dict[int, Sampled] = {}
    held: dict[int, list[FloatArray]] = {g: [] for g in range(groups)}
    todo, state = np.arange(groups), None
    with np.errstate(all="ignore"):  # a proposal may lie beyond the floats; it is not kept
        for block in range(MOST_BLOCKS):
            turn = hamiltonian.LONG_TURN if block else hamiltonian.TURN
            again, states = [], []
            for start in range(0, len(todo), BATCH):
                rows = np.arange(start, min(start + BATCH, len(todo)))
                chosen = todo[rows]
                own, part = [generators[g] for g in chosen.tolist()], target.take(chosen)
                before = (
                    hamiltonian.warm(part, own, chains)
                    if state is None
                    else hamiltonian.looked_anew(part, state.take(rows))
                )
                after, x = hamiltonian.go(
                    part, own, before, steps if block == 0 else steps // 2, turn
                )
                for g, drawn in zip(chosen.tolist(), x, strict=True):
                    held[g].append(drawn)
                    found[g] = _drawn(target, np.concatenate(held[g]), g, generators[g])
                mixed = np.array([_mixed(found[g], held[g], draws) for g in chosen.tolist()])
                again.append(chosen[~mixed])
                states.append(after.take(np.flatnonzero(~mixed)))
                if progress is not None:
                    progress((block + rows[-1] / len(todo)) / (block + 1.5))
            todo, state = np.concatenate(again), hamiltonian.State.join(states)
            if not todo.size:
                break
    return [found[g] for g in range(groups)]


def _mixed(sampled: Sampled, held: list[FloatArray], draws: int) -> bool:
    """Whether the chains have; where some have only now arrived, their first steps are let go."""
    told = diagnostics.of(np.concatenate(sampled.parameters, axis=2))
    rhat, ess = float(told.rhat.max()), float(told.ess.min())
    if rhat > BAD_RHAT:
        del held[0]
    return rhat < GOOD_RHAT and ess > min(GOOD_ESS, draws)


def _drawn(target: Target, x: FloatArray, group: int, rng: np.random.Generator) -> Sampled:
    steps, chains, d = x.shape
    flat = x.reshape(-1, d)
    point = target.take(np.full(len(flat), group)).at(flat)
    model: Model = target.model
    found = model.draw(rng, point.mean, point.root, point.size, point.own)
    return Sampled([one.reshape(steps, chains, -1) for one in found], point)
