"""The likelihood of each group as a function of the parameter that is pooled, on a grid that
follows it.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from noisewise.artifact import Release
from noisewise.errors import UnsupportedCombination
from noisewise.inference import effort
from noisewise.inference.grid.adaptive import Grid
from noisewise.inference.infer import BATCH, BATCH_OF_TWO
from noisewise.inference.methods import AUTO
from noisewise.inference.methods.base import Request
from noisewise.inference.methods.grid_solutions import OneParameter, TwoParameters
from noisewise.inference.observations import batch_key, gather
from noisewise.inference.pooling.populations import Gamma, Normal, Population
from noisewise.inference.pooling.reference import Reference, prior_of_second
from noisewise.inference.problem import Problem
from noisewise.inference.solution import Solution
from noisewise.inference.solver import NUMERICAL, Solver
from noisewise.model import threads
from noisewise.model.arrays import FloatArray, IntArray
from noisewise.model.priors import Prior

WIDE = 1.0
"""The reference prior of a probability is uniform: logistic(0, 1) in its logit."""
WIDE_LOG = 2.0
"""That of a positive parameter's logarithm: e^-14 at twelve decades from its middle."""
MATTERS, LOOSEST = 13.0, 4.0
"""The exact likelihood is computed at every other point where the reference posterior is above
e^-13 of its peak; its own error may be up to e^4 times as large there as at the peak.
"""
EDGE = 11.0
"""A margin of two parameters is read down to e^-11 of its peak: below, its box cuts it off."""
DRAWS = 100
"""Of both parameters of a group."""
REACH, UNEVEN = 5, 0.3
"""Points to either side that tell how far apart points are, and the share of it that they keep at
least.
"""


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
    both: FloatArray | None = None
    """Of two parameters: psi of the first, increasing, and the second, at draws of the posterior
    that the reference leads to, (2, draws).
    """


def curves(
    releases: Sequence[Release],
    population: Population,
    prior: "Prior | str | None",
    n_prior: Prior | None = None,
    progress: Callable[[float], None] | None = None,
    *,
    method: str = AUTO,
    within: bool = False,
) -> list[Curve]:
    """One for each release, in their order; the second parameter, where there is one, integrated
    out under its prior, and so is a number of records that is not public. `within` takes every
    record to lie within its bounds.
    """
    alike: dict[Any, list[int]] = {}
    for position, one in enumerate(releases):
        alike.setdefault(batch_key(one), []).append(position)
    jobs: list[tuple[list[int], Reference]] = []
    for members in alike.values():
        first = releases[members[0]]
        size = BATCH if len(first.family.parameters) == 1 else BATCH_OF_TWO
        reference = reference_for(population, first, prior)
        jobs += [
            (members[start : start + size], reference) for start in range(0, len(members), size)
        ]
    out: dict[int, Curve] = {}

    def work(job: tuple[list[int], Reference]) -> tuple[list[int], list[Curve]]:
        chosen, reference = job
        own = [releases[i] for i in chosen]
        observations = gather(own, None if own[0].n is not None else n_prior)
        record = replace(observations.record, all_within=within)
        problem = Problem(own[0].family, (reference,), (replace(observations, record=record),))
        return chosen, _batch(own, problem, reference, method)

    for chosen, found in threads.run(work, jobs):
        out.update(zip(chosen, found, strict=True))
        if progress is not None:
            progress(len(out) / len(releases))
    return [out[i] for i in range(len(releases))]


def reference_for(
    population: Population, release: Release, prior: "Prior | str | None"
) -> Reference:
    """The wide prior with which the likelihoods are tabulated."""
    second = prior_of_second(release, prior)
    if isinstance(population, Normal):
        low, high = population.low, population.high
        return Reference(population.axis, (low + high) / 2, high - low, second)
    if isinstance(population, Gamma):
        middle = (population.low + population.high) / 2
        return Reference(population.axis, middle, WIDE_LOG, second)
    return Reference(population.axis, 0.0, WIDE, second)


def _batch(
    releases: Sequence[Release], problem: Problem, reference: Reference, method: str
) -> list[Curve]:
    solver = Solver(problem, method, Request(""))
    solved = solver.solve()
    _sharpen([solution for _, solution in solved])
    return [
        _curve(release, name, solution, reference)
        for release, (name, solution) in zip(releases, solved, strict=True)
    ]


def _sharpen(solutions: Sequence[Solution]) -> None:
    """Replace, in place, the values of one parameter's grids by the exact ones where they matter.

    The solver interpolates between fewer points, to an error that is small beside a posterior's own
    spread; the errors of thousands of alike groups would add up.
    """
    batches = {id(one.batch): one.batch for one in solutions if isinstance(one, OneParameter)}
    for batch in batches.values():
        if not batch.exact:
            continue
        problem, grid = batch.problem, batch.curves.grid
        group = grid.group
        below = grid.best[group] - grid.value
        place = np.arange(grid.psi.size) - grid.start[:-1][group]
        rows = np.flatnonzero((below < MATTERS) & (place % 2 == 0))
        slack = np.exp(np.minimum(below[rows] / 2, LOOSEST))
        try:
            with np.errstate(all="ignore"), effort.limited(problem.groups):
                exact, _ = problem.exact(grid.psi[rows], group[rows], slack)
        except (effort.TooMuchWork, *NUMERICAL):
            continue  # the solver's own values stand, with their error
        fresh = exact + problem.log_prior(grid.psi[rows], group[rows])
        gap = np.full(grid.psi.size, np.nan)
        gap[rows] = np.where(np.isfinite(fresh), fresh - grid.value[rows], np.nan)
        for g in range(grid.start.size - 1):
            own = grid.rows(g)
            known = np.flatnonzero(np.isfinite(gap[own]))
            if known.size:
                grid.value[own] += np.interp(grid.psi[own], grid.psi[own][known], gap[own][known])


def _curve(release: Release, name: str, solution: Solution, reference: Reference) -> Curve:
    both = None
    if isinstance(solution, OneParameter):
        grid, rows = solution.batch.curves.grid, solution.batch.curves.grid.rows(solution.group)
        psi, value = grid.psi[rows], grid.value[rows]
        error = float(solution.batch.curves.error[solution.group])
    elif isinstance(solution, TwoParameters):
        own: Grid = solution.batch.margins(solution.group)[0]
        inside = own.value > own.value.max() - EDGE
        kept = _spaced(own.psi[inside])
        psi, value = own.psi[inside][kept], own.value[inside][kept]
        error = max(float(one.error[0]) for one in solution.batch.patches[solution.group])
        first, second = solution.draw(np.random.default_rng(0), DRAWS)
        both = np.stack([reference.axis.psi(first), second])[:, np.argsort(first)]
    else:
        raise UnsupportedCombination(
            "pool needs the likelihood of every release on a grid, and no grid serves the "
            f"{release.family.kind} family here ({solution.certificate().reason})."
        )
    known = value - reference.log_psi(psi)
    good = np.isfinite(known) & (value > value.max() - 200)
    psi, known = psi[good], known[good]
    return Curve(psi, known - known.max(), release.n == 0, name, error, both)


def _spaced(psi: FloatArray) -> IntArray:
    """Which points stay so that none all but meets the one before it: between such the log density
    is rounding, and its slope anything.
    """
    wide = np.minimum(np.arange(psi.size) + REACH, psi.size - 1)
    near = np.maximum(np.arange(psi.size) - REACH, 0)
    least = UNEVEN * (psi[wide] - psi[near]) / (wide - near)
    kept = [0]
    for i in range(1, psi.size):
        if psi[i] - psi[kept[-1]] > least[i]:
            kept.append(i)
    return np.array(kept, dtype=np.int64)
