"""The posterior of one parameter on an adaptive grid, for many groups at once.

The collapsed likelihood, cheap, finds where the posterior lies and builds the grid. The difference
between the exact and the collapsed log-likelihood is smooth, so the exact one is evaluated at a few
Chebyshev points of each stretch that holds a peak, more of them where a coarser choice would have
told another story, and at every point of the grid where that fails.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np

from noisewise.inference.grid import adaptive as grids
from noisewise.inference.grid import chebyshev
from noisewise.inference.grid.adaptive import Grid
from noisewise.model.arrays import BoolArray, FloatArray, IntArray

COUNTS = (9, 17, 33, 65)
"""Chebyshev points of a stretch at which the exact likelihood is evaluated; every other of them are
those of the count before, or 5.
"""
FEW = 4
"""So many stretches are evaluated for the first three counts at once: a call costs more than their
points (2.1 ms with 17 and 2.5 ms with 33 of a truncated exponential).
"""
RANGE = 9.0
"""The difference is interpolated where the posterior is above e^-9 of its peak, and held constant
beyond.
"""
EVERYWHERE = 18.0
"""How far below the peak the exact density is refined where no interpolation serves."""
AGREE = 4e-3
"""Half as many points must give the same log density to this, weighted by the density: then all of
them err far less.
"""

CORE, LONG = 1.0, 4.5
"""Where the posterior is above e^-1 of its peak is the core of a stretch, a third of it if the
posterior is normal. One that is so many times longer than its core has long tails: there few points
lie in the core, and two coarse choices may agree by chance.
"""

Likelihood = Callable[[FloatArray, IntArray], FloatArray]


class Exact(Protocol):
    """The log likelihood at (psi, group) and its numerical error, which may be `slack` times the
    usual one. Where it is below `least`, what it does not exceed will do.
    """

    def __call__(
        self,
        psi: FloatArray,
        group: IntArray,
        slack: FloatArray | None = None,
        /,
        *,
        least: FloatArray | None = None,
    ) -> tuple[FloatArray, FloatArray]: ...


@dataclass(frozen=True, slots=True)
class Curves:
    """The log posterior on a grid of psi, and how it was computed."""

    grid: Grid
    collapsed: Grid
    error: FloatArray  # (groups,): of the log density near its peak
    points: IntArray  # (groups,): exact evaluations


def solve(
    log_prior: Likelihood, collapsed: Likelihood, exact: Exact | None, psi: Sequence[FloatArray]
) -> Curves:
    """Functions of (psi, group), both flat; psi is a first grid of each group. Without `exact`,
    collapsed is the answer.
    """

    def approximate(at: FloatArray, group: IntArray) -> FloatArray:
        return log_prior(at, group) + collapsed(at, group)

    grid = grids.refine(approximate, grids.begin(approximate, psi))
    groups = len(psi)
    if exact is None:
        return Curves(grid, grid, np.zeros(groups), np.zeros(groups, dtype=np.int64))
    line, highest, failed, beyond = _interpolated(log_prior, approximate, exact, grid)
    which = np.flatnonzero(failed | beyond)
    return (
        line
        if which.size == 0
        else _everywhere(log_prior, approximate, exact, line, highest, which, beyond[which], psi)
    )


@dataclass(frozen=True, slots=True)
class _Stretches:
    """Runs of grid points that matter, most groups having one; every point of the grid belongs to
    the nearest run.
    """

    group: IntArray  # (stretches,)
    low: FloatArray
    high: FloatArray
    of: IntArray  # (points,): the stretch of each point of the grid
    long: BoolArray  # (stretches,): whether it has long tails

    @classmethod
    def on(cls, grid: Grid) -> "_Stretches":
        matters = grid.value >= grid.best[grid.group] - RANGE
        begins = matters.copy()
        begins[1:] &= ~matters[:-1] | (np.diff(grid.group) > 0)
        first = np.flatnonzero(begins)
        ends = matters.copy()
        ends[:-1] &= ~matters[1:] | (np.diff(grid.group) > 0)
        last = np.flatnonzero(ends)
        group, low, high = grid.group[first], grid.psi[first], grid.psi[last]
        # A stretch holds the points up to halfway to the next one of its group, or to the group's
        # end.
        border = np.append((last[:-1] + first[1:] + 1) // 2, grid.psi.size)
        new = np.append(group[1:] != group[:-1], False)
        border[new] = grid.start[group[np.flatnonzero(new) + 1]]
        of = np.repeat(np.arange(first.size), np.diff(np.concatenate([[0], border])))
        core = grid.value >= grid.best[grid.group] - CORE
        left, right = np.full(first.size, np.inf), np.full(first.size, -np.inf)
        np.minimum.at(left, of[core], grid.psi[core])
        np.maximum.at(right, of[core], grid.psi[core])
        # a side peak may have no core of its own
        long = (right > left) & (high - low > LONG * (right - left))
        return cls(group, low, np.maximum(high, low + 1e-12 * (1 + np.abs(low))), of, long)

    def unit(self, rows: IntArray, psi: FloatArray) -> FloatArray:
        """Where psi lies in its stretch, which spans -1 to 1."""
        low, high = self.low[self.of[rows]], self.high[self.of[rows]]
        return np.asarray((2 * psi - low - high) / (high - low))


def _interpolated(
    log_prior: Likelihood, approximate: Likelihood, exact: Exact, grid: Grid
) -> tuple[Curves, FloatArray, BoolArray, BoolArray]:
    """The grid with the interpolated difference added; the highest exact value of each group that
    was seen; the groups where interpolation fails, and those whose peak may lie elsewhere.
    """
    groups = grid.start.size - 1
    value, error, points = grid.value.copy(), np.zeros(groups), np.zeros(groups, dtype=np.int64)
    stretches = _Stretches.on(grid)
    todo, known = np.arange(stretches.group.size), np.empty((stretches.group.size, 0))
    ends, highest = np.empty((2, 0)), np.full(groups, -np.inf)
    failed = np.zeros(todo.size, dtype=bool)
    for count in COUNTS:
        if known.shape[1] < count:
            begins = known.shape[1] == 0
            unit = chebyshev.points(COUNTS[2] if begins and todo.size <= FEW else count)
            fresh = unit if begins else unit[1::2]
            low, high = stretches.low[todo, None], stretches.high[todo, None]
            at = (low + high) / 2 + (high - low) / 2 * fresh
            flat, owner = at.ravel(), np.repeat(stretches.group[todo], fresh.size)
            likelihood, rest = exact(flat, owner)
            np.add.at(points, owner, 1)
            posterior = likelihood + log_prior(flat, owner)
            np.fmax.at(highest, owner, posterior)
            gap = (posterior - approximate(flat, owner)).reshape(at.shape)
            known = _interleave(known, gap)
            if begins:
                ends = posterior.reshape(at.shape)[:, [0, -1]].T
        gap = known[:, :: (known.shape[1] - 1) // (count - 1)]
        failed[todo] |= ~np.isfinite(gap).all(axis=1)
        rows = (
            np.flatnonzero(np.isin(stretches.of, todo))
            if todo.size < failed.size
            else np.arange(grid.psi.size)
        )
        held = np.searchsorted(todo, stretches.of[rows])
        t = stretches.unit(rows, grid.psi[rows])
        fine = _polynomial(gap, held, t)
        value[rows] = np.maximum(grid.value[rows] + fine, grids.LOWEST)
        best = np.maximum.reduceat(value, grid.start[:-1])
        np.maximum.at(
            error, owner, np.minimum(rest, 1.0) * np.exp(np.minimum(posterior - best[owner], 0.0))
        )
        miss = np.zeros(todo.size)
        off = np.abs(fine - _polynomial(gap[:, ::2], held, t)) * np.exp(
            value[rows] - best[grid.group[rows]]
        )
        np.maximum.at(miss, held, off)
        settled = failed[todo] | (miss < AGREE) & ~(stretches.long[todo] & (count == COUNTS[0]))
        # Convergence is geometric: the finer one errs about as the square.
        np.maximum.at(error, stretches.group[todo[settled]], miss[settled] ** 1.5)
        known, todo = known[~settled], todo[~settled]
        if todo.size == 0:
            break
    failed[todo] = True
    # Does the exact posterior reach further than the collapsed one?
    first, last = (
        grid.psi[grid.start[:-1]][stretches.group],
        grid.psi[grid.start[1:] - 1][stretches.group],
    )
    ends = np.where(np.stack([stretches.low > first, stretches.high < last]), ends, -np.inf)
    beyond = (
        ends.max(axis=0) > np.maximum.reduceat(value, grid.start[:-1])[stretches.group] - RANGE / 2
    )
    failing, reaching = (
        np.bincount(stretches.group, flag, minlength=groups) > 0 for flag in (failed, beyond)
    )
    return Curves(replace(grid, value=value), grid, error, points), highest, failing, reaching


def _interleave(known: FloatArray, fresh: FloatArray) -> FloatArray:
    """The values at Chebyshev points from those at every other one, known before, and those
    between.
    """
    if known.shape[1] == 0:
        return fresh
    merged = np.empty((known.shape[0], known.shape[1] + fresh.shape[1]))
    merged[:, ::2], merged[:, 1::2] = known, fresh
    return merged


def _polynomial(values: FloatArray, row: IntArray, t: FloatArray) -> FloatArray:
    """The polynomial through values[row] at each t, held constant beyond [-1, 1]."""
    out: FloatArray = np.where(t < 0, values[row, 0], values[row, -1])
    inside = np.flatnonzero(np.abs(t) < 1)
    out[inside] = np.einsum(
        "pc,pc->p", chebyshev.weights(values.shape[1], t[inside]), values[row[inside]]
    )
    return out


def _everywhere(
    log_prior: Likelihood,
    approximate: Likelihood,
    exact: Exact,
    line: Curves,
    highest: FloatArray,
    which: IntArray,
    beyond: BoolArray,
    psi: Sequence[FloatArray],
) -> Curves:
    """Redo some groups with the exact likelihood at every point of a grid of their own; from the
    first grid if it lies beyond. Far below the `highest` value of a group it is only bounded: out
    there it may take a thousand times as long.
    """
    error, points = line.error.copy(), line.points.copy()
    worst, highest = np.zeros(error.size), highest.copy()

    def posterior(at: FloatArray, local: IntArray) -> FloatArray:
        owner = which[local]
        prior = log_prior(at, owner)
        likelihood, rest = exact(at, owner, least=highest[owner] - grids.DROP - prior)
        np.add.at(points, owner, 1)
        value = np.maximum(likelihood + prior, grids.LOWEST)
        np.maximum.at(highest, owner, value)
        np.maximum.at(
            worst, owner, np.minimum(rest, 1.0) * np.exp(np.minimum(value - highest[owner], 0.0))
        )
        return value

    starts = []
    for g, far in zip(which, beyond, strict=True):
        own = line.grid.psi[line.grid.rows(g)]
        reach = len(psi[g]) if far else 2
        near = np.append(psi[g][psi[g] < own[0]][-reach:], psi[g][psi[g] > own[-1]][:reach])
        starts.append(np.union1d(own, near))
    grid = grids.refine(posterior, grids.begin(posterior, starts), drop=EVERYWHERE)
    error[which] = worst[which]
    crude = np.maximum(approximate(grid.psi, which[grid.group]), grids.LOWEST)
    return Curves(
        line.grid.replaced(which, grid),
        line.collapsed.replaced(which, replace(grid, value=crude)),
        error,
        points,
    )
