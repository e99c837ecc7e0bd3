"""The likelihood of each group as a function of the parameter that is pooled, on a grid that
follows it.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from noisewise.artifact import Release
from noisewise.errors import UnsupportedCombination
from noisewise.inference.grid.adaptive import Grid
from noisewise.inference.infer import BATCH, BATCH_OF_TWO
from noisewise.inference.methods.base import Request
from noisewise.inference.methods.grid_solutions import OneParameter, TwoParameters
from noisewise.inference.observations import batch_key, gather
from noisewise.inference.pooling.populations import Gamma, Normal, Population
from noisewise.inference.pooling.reference import Reference, prior_of_second
from noisewise.inference.problem import Problem
from noisewise.inference.solution import Solution
from noisewise.inference.solver import Solver
from noisewise.model.arrays import FloatArray
from noisewise.model.priors import Prior

WIDE = 1.0
"""The reference prior of a probability is uniform: logistic(0, 1) in its logit."""
WIDE_LOG = 2.0
"""That of a positive parameter's logarithm: e^-14 at twelve decades from its middle."""


@dataclass(frozen=True)
class Curve:
    """log L(psi) of one group, up to a constant."""

    psi: FloatArray  # (points,), increasing
    value: FloatArray  # (points,): at most 0
    flat: bool
    """Whether it says nothing at all: a group without records."""
    method: str
    error: float
    """Of the log likelihood near its peak."""


def curves(
    releases: Sequence[Release],
    population: Population,
    prior: "Prior | str | None",
    progress: Callable[[float], None] | None = None,
) -> list[Curve]:
    """One for each release, in their order; the second parameter, where there is one, integrated
    out under its prior.
    """
    alike: dict[Any, list[int]] = {}
    for position, one in enumerate(releases):
        alike.setdefault(batch_key(one), []).append(position)
    out: list[Curve | None] = [None] * len(releases)
    done = 0
    for members in alike.values():
        first = releases[members[0]]
        size = BATCH if len(first.family.parameters) == 1 else BATCH_OF_TWO
        reference = _reference(population, first, prior)
        for start in range(0, len(members), size):
            chosen = members[start : start + size]
            own = [releases[i] for i in chosen]
            for i, curve in zip(chosen, _batch(own, reference), strict=True):
                out[i] = curve
            done += len(chosen)
            if progress is not None:
                progress(done / len(releases))
    return [one for one in out if one is not None]


def _reference(population: Population, release: Release, prior: "Prior | str | None") -> Reference:
    second = prior_of_second(release, prior)
    if isinstance(population, Normal):
        low, high = population.low, population.high
        return Reference(population.axis, (low + high) / 2, high - low, second)
    if isinstance(population, Gamma):
        middle = (population.low + population.high) / 2
        return Reference(population.axis, middle, WIDE_LOG, second)
    return Reference(population.axis, 0.0, WIDE, second)


def _batch(releases: Sequence[Release], reference: Reference) -> list[Curve]:
    problem = Problem(releases[0].family, (reference,), (gather(releases),))
    solver = Solver(problem, "auto", Request(""))
    solved = solver.solve()
    return [
        _curve(release, name, solution, reference)
        for release, (name, solution) in zip(releases, solved, strict=True)
    ]


def _curve(release: Release, name: str, solution: Solution, reference: Reference) -> Curve:
    if isinstance(solution, OneParameter):
        grid, rows = solution.batch.curves.grid, solution.batch.curves.grid.rows(solution.group)
        psi, value = grid.psi[rows], grid.value[rows]
        error = float(solution.batch.curves.error[solution.group])
    elif isinstance(solution, TwoParameters):
        own: Grid = solution.batch.margins(solution.group)[0]
        psi, value = own.psi, own.value
        error = max(float(one.error[0]) for one in solution.batch.patches[solution.group])
    else:
        raise UnsupportedCombination(
            "pool needs the likelihood of every release on a grid, and no grid serves the "
            f"{release.family.kind} family here ({solution.certificate().reason})."
        )
    known = value - reference.log_psi(psi)
    good = np.isfinite(known) & (value > value.max() - 200)
    psi, known = psi[good], known[good]
    return Curve(psi, known - known.max(), release.n == 0, name, error)
