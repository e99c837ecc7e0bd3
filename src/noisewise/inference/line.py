"""The posterior of one parameter on an adaptive grid, for many groups at once.

The collapsed likelihood, cheap, finds where the posterior lies and builds the grid. The difference between the exact
and the collapsed log-likelihood is smooth, so the exact one is evaluated at a few Chebyshev points of that range only,
more of them where a coarser choice would have told another story, and at every point of the grid where that fails.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from noisewise.inference import chebyshev
from noisewise.inference import grid as grids
from noisewise.inference.grid import Grid
from noisewise.model.arrays import FloatArray, IntArray

COUNTS = (9, 17, 33, 65)
RANGE = 11.0
"""The difference is interpolated where the posterior is above e^-11 of its peak, and held constant beyond."""
EVERYWHERE = 18.0
"""How far below the peak the exact density is refined where no interpolation serves."""
AGREE = 4e-3
"""Half as many points must give the same log density to this, weighted by the density: then all of them err far less."""

Likelihood = Callable[[FloatArray, IntArray], FloatArray]
Exact = Callable[[FloatArray, IntArray], tuple[FloatArray, FloatArray]]


@dataclass(frozen=True, slots=True)
class Line:
    """The log posterior on a grid of psi, and how it was had."""

    grid: Grid
    collapsed: Grid
    error: FloatArray  # (groups,): of the log density near its peak
    points: IntArray  # (groups,): exact evaluations


def solve(log_prior: Likelihood, collapsed: Likelihood, exact: Exact | None, psi: FloatArray) -> Line:
    """Functions of (psi, group), both flat; psi is a first grid, (groups, points). Without `exact`, collapsed is the answer."""

    def approximate(at: FloatArray, group: IntArray) -> FloatArray:
        return log_prior(at, group) + collapsed(at, group)

    grid = grids.refine(approximate, grids.begin(approximate, psi))
    groups = len(psi)
    if exact is None:
        return Line(grid, grid, np.zeros(groups), np.zeros(groups, dtype=np.int64))
    value, error, points = grid.value.copy(), np.zeros(groups), np.zeros(groups, dtype=np.int64)
    group = grid.group
    low, high = grid.extent(RANGE)
    todo, known = np.arange(groups), np.empty((groups, 0))
    failed, beyond = np.zeros(groups, dtype=bool), np.zeros(groups, dtype=bool)
    for count in COUNTS:
        unit = chebyshev.points(count)
        fresh = unit if count == COUNTS[0] else unit[1::2]
        at = (low[todo] + high[todo])[:, None] / 2 + (high[todo] - low[todo])[:, None] / 2 * fresh
        flat, owner = at.ravel(), np.repeat(todo, at.shape[1])
        likelihood, rest = exact(flat, owner)
        points[todo] += at.shape[1]
        posterior = (likelihood + log_prior(flat, owner)).reshape(at.shape)
        weight = np.exp(posterior - posterior.max(axis=1, keepdims=True))
        error[todo] = np.maximum(error[todo], (np.minimum(rest.reshape(at.shape), 1.0) * weight).max(axis=1))
        if count == COUNTS[0]:  # does the exact posterior reach further than the collapsed one?
            ends = np.stack(
                [
                    np.where(low > grid.psi[grid.start[:-1]], posterior[:, 0], -np.inf),
                    np.where(high < grid.psi[grid.start[1:] - 1], posterior[:, -1], -np.inf),
                ]
            )
            beyond = ends.max(axis=0) > posterior.max(axis=1) - RANGE / 2
        gap = (likelihood - collapsed(flat, owner)).reshape(at.shape)
        failed[todo] |= ~np.isfinite(gap).all(axis=1)
        gap = _interleave(known, gap)
        here = np.flatnonzero(np.isin(group, todo)) if todo.size < groups else np.arange(group.size)
        position = np.searchsorted(todo, group[here])
        t = np.clip((2 * grid.psi[here] - (low + high)[group[here]]) / (high - low)[group[here]], -1.0, 1.0)
        fine = _polynomial(gap, position, t)
        value[here] = grid.value[here] + fine
        settled = failed[todo]
        if count > COUNTS[0]:
            miss, best = np.zeros(todo.size), np.full(todo.size, -np.inf)
            np.maximum.at(best, position, value[here])
            off = np.abs(fine - _polynomial(gap[:, ::2], position, t)) * np.exp(value[here] - best[position])
            np.maximum.at(miss, position, off)
            settled |= miss < AGREE
            error[todo[settled]] += miss[settled] ** 1.5  # convergence is geometric: the finer one errs about as the square
        known, todo = gap[~settled], todo[~settled]
        if todo.size == 0:
            break
    out = replace(grid, value=value)
    failed[todo] = True
    if (failed | beyond).any():
        which = np.flatnonzero(failed | beyond)
        return _everywhere(log_prior, collapsed, exact, Line(out, grid, error, points), which, beyond, psi)
    return Line(out, grid, error, points)


def _interleave(known: FloatArray, fresh: FloatArray) -> FloatArray:
    """The values at Chebyshev points from those at every other one, known before, and those between."""
    if known.shape[1] == 0:
        return fresh
    merged = np.empty((known.shape[0], known.shape[1] + fresh.shape[1]))
    merged[:, ::2], merged[:, 1::2] = known, fresh
    return merged


def _polynomial(values: FloatArray, row: IntArray, t: FloatArray) -> FloatArray:
    """The polynomial through values[row], at each t."""
    return np.asarray(np.einsum("pc,pc->p", chebyshev.weights(values.shape[1], t), values[row]))


def _everywhere(
    log_prior: Likelihood,
    collapsed: Likelihood,
    exact: Exact,
    line: Line,
    which: IntArray,
    beyond: NDArray[np.bool_],
    psi: FloatArray,
) -> Line:
    """Redo some groups with the exact likelihood at every point of a grid of their own; from the first grid if it lies beyond."""
    error, points = line.error.copy(), line.points.copy()
    pieces = {}
    for g in which:
        worst = 0.0

        def posterior(at: FloatArray, _: IntArray, g: int = int(g)) -> FloatArray:
            nonlocal worst
            owner = np.full(at.size, g)
            likelihood, rest = exact(at, owner)
            points[g] += at.size
            value = likelihood + log_prior(at, owner)
            highest = value.max(initial=-np.inf)
            worst = max(worst, float((np.minimum(rest, 1.0) * np.exp(np.minimum(value - highest, 0.0))).max(initial=0.0)))
            return value

        own = line.grid.psi[line.grid.rows(int(g))]
        reach = len(psi[g]) if beyond[g] else 2
        near = np.append(psi[g][psi[g] < own[0]][-reach:], psi[g][psi[g] > own[-1]][:reach])
        start = np.union1d(own, near)[None, :]
        pieces[int(g)] = grids.refine(posterior, grids.begin(posterior, start), drop=EVERYWHERE)
        error[g] = worst

    def assemble(grid: Grid, values: dict[int, FloatArray]) -> Grid:
        rows = [grid.rows(g) for g in range(error.size)]
        at = [pieces[g].psi if g in pieces else grid.psi[rows[g]] for g in range(error.size)]
        value = [values[g] if g in pieces else grid.value[rows[g]] for g in range(error.size)]
        return Grid(np.concatenate(at), np.concatenate(value), np.concatenate([[0], np.cumsum([a.size for a in at])]))

    crude = {}
    for g, piece in pieces.items():
        owner = np.full(piece.psi.size, g)
        crude[g] = np.maximum(log_prior(piece.psi, owner) + collapsed(piece.psi, owner), grids.LOWEST)
    return Line(
        assemble(line.grid, {g: piece.value for g, piece in pieces.items()}), assemble(line.collapsed, crude), error, points
    )
