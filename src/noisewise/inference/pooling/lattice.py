"""The posterior of (v, w), where a population lies and how wide it is, on a lattice about it.

From the highest point found, rows in the posterior's own scale are laid as far as the density
matters: a sum over them is the integral, with an error that falls exponentially with the step for
anything smooth. Every other point makes a coarser lattice, which tells the error.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import scipy

from noisewise.inference.pooling.populations import WIDEST
from noisewise.model.arrays import FloatArray, IntArray

Density = Callable[[FloatArray], FloatArray]
"""(points, 2) -> log density, (points,)."""

STEPS, EVEN = (0.6, 0.3, 0.15), (2e-3, 1e-2, 1.0)
"""Of the lattice, in sds of the posterior: the first with which its halves agree so well; a step
half as wide errs far less. The finer ones are for posteriors of several peaks.
"""
DROP = 14.0
"""The lattice ends where the density is e^-14 of its highest, a millionth."""
FIRST = np.stack(np.meshgrid(np.linspace(-8, 8, 13), np.linspace(-10, 14, 13)), -1).reshape(-1, 2)
"""Where the search for the highest point begins."""
WIDEST_STEP = 0.75
"""The lattice's step in v and w at most: the logistic prior has sd 1.8."""
SEARCH, NEAR, LEAST = 80, (0.05, 3.0), 1e-9
"""Steps of the search. It ends where the eight points about the highest are neither so high that
they tell no scale nor so low that it may lie between them, or are as close as that.
"""
MOST = 400
"""Points of a row."""
ROUNDS = 400
"""Rows to either side, and blocks that a row grows by."""
BLOCK = 8
"""Points by which a row grows on a side."""
TRIES = 6
"""Of finding a row's step."""
BEYOND = 10.0
"""What is cut off on all sides, in units of the density at the edge."""
FINE = 4
"""Cells of the lattice are cut in so many, by splines, for quantiles and draws."""
FLOOR = 22.0
"""What is not on the lattice is e^-22 of the highest there."""


@dataclass(frozen=True)
class Lattice:
    """Rows of constant w, evenly spaced, each with a grid of v of its own: where groups are few, a
    narrow population is far better placed than a wide one, and no one step of v serves both.
    """

    w: FloatArray  # (rows,)
    centre: FloatArray  # (rows,)
    step: FloatArray  # (rows,): of v
    place: IntArray  # (points, 2): which row, and how many steps from its centre
    value: FloatArray  # (points,): the log density of (v, w)

    @cached_property
    def at(self) -> FloatArray:
        """(v, w), (points, 2)."""
        row, nth = self.place.T
        return np.stack([self.centre[row] + nth * self.step[row], self.w[row]], axis=1)

    @cached_property
    def steps(self) -> FloatArray:
        """The step of v at each point, (points,)."""
        return self.step[self.place[:, 0]]

    @cached_property
    def weight(self) -> FloatArray:
        """The mass of each point, (points,); they add up to 1."""
        mass = np.exp(self.value - self.value.max()) * self.steps
        return np.asarray(mass / mass.sum())

    def moments(self, of: Density) -> tuple[float, float]:
        """Mean and sd of what a function makes of (v, w)."""
        value = of(self.at)
        mean = float(value @ self.weight)
        return mean, float(np.sqrt((value - mean) ** 2 @ self.weight))

    @cached_property
    def _even(self) -> Any:
        return self.place.sum(axis=1) % 2 == 0

    @cached_property
    def halves(self) -> tuple[FloatArray, FloatArray]:
        """The weights on the two coarser lattices, of even and of odd points."""
        one, other = np.where(self._even, self.weight, 0.0), np.where(self._even, 0.0, self.weight)
        return one / one.sum(), other / max(float(other.sum()), 1e-300)

    @property
    def error(self) -> float:
        """How far the sums over both halves differ, which is more than either errs."""
        return abs(float(self.weight[self._even].sum()) - 0.5) + BEYOND * float(np.exp(-DROP))

    def nearest(self, at: FloatArray) -> IntArray:
        """The point of the lattice next to each (v, w), (size,)."""
        row = np.round((at[:, 1] - self.w[0]) / (self.w[1] - self.w[0])).astype(np.int64)
        row = np.clip(row, 0, self.w.size - 1)
        nth = np.round((at[:, 0] - self.centre[row]) / self.step[row]).astype(np.int64)
        first = np.searchsorted(self.place[:, 0], np.arange(self.w.size + 1))
        low, high = self.place[first[:-1], 1], self.place[first[1:] - 1, 1]
        return np.asarray(first[row] + np.clip(nth, low[row], high[row]) - low[row])

    @cached_property
    def _fine(self) -> tuple[FloatArray, FloatArray]:
        """(row, steps) of a finer lattice, and the mass there."""
        low, high = int(self.place[:, 1].min()) - 2, int(self.place[:, 1].max()) + 2
        top = self.value.max()
        table = np.full((self.w.size + 2, high - low + 1), top - FLOOR)
        table[self.place[:, 0] + 1, self.place[:, 1] - low] = self.value
        rows, steps = np.arange(-1, self.w.size + 1), np.arange(low, high + 1)
        spline = scipy.interpolate.RectBivariateSpline(rows, steps, table)
        fine_rows = np.arange(0, self.w.size - 1 + 0.5 / FINE, 1 / FINE)
        fine_steps = np.arange(low, high + 0.5 / FINE, 1 / FINE)
        value = spline(fine_rows, fine_steps)
        i, j = np.nonzero(value > top - DROP)
        place = np.stack([fine_rows[i], fine_steps[j]], axis=1)
        mass = np.exp(value[i, j] - top) * self._between(place[:, 0])[1]
        return place, np.asarray(mass / mass.sum())

    def _between(self, row: FloatArray) -> tuple[FloatArray, FloatArray]:
        """The centre and the step of v on rows between those of the lattice."""
        known = np.arange(self.w.size)
        return np.interp(row, known, self.centre), np.exp(np.interp(row, known, np.log(self.step)))

    def _points(self, place: FloatArray) -> FloatArray:
        centre, step = self._between(place[:, 0])
        w = self.w[0] + place[:, 0] * (self.w[1] - self.w[0])
        return np.stack([centre + place[:, 1] * step, w], axis=1)

    def fine(self) -> tuple[FloatArray, FloatArray]:
        """(v, w) of a finer lattice, (points, 2), and the mass there."""
        place, mass = self._fine
        return self._points(place), mass

    def draw(self, rng: np.random.Generator, size: int) -> FloatArray:
        """(v, w), (size, 2)."""
        place, mass = self._fine
        rows = rng.choice(len(place), size, p=mass)
        return self._points(place[rows] + rng.triangular(-1, 0, 1, (size, 2)) / FINE)


def lattice(density: Density, rough: Density) -> Lattice:
    """Of a density that has one region where it matters; `rough` is a cheaper one, to begin the
    search with.
    """
    mode, precision = _mode(density, rough)
    for step, even in zip(STEPS, EVEN, strict=True):
        found = _rows(density, mode, precision, step)
        if found.error < even:
            break
    return found


def _rows(density: Density, mode: FloatArray, precision: FloatArray, size: float) -> Lattice:
    """Rows with steps of so many sds."""
    narrow = float(1 / np.sqrt(max(precision[0, 0], 1e-300)))  # of v, at the mode's own w
    spread = float(np.sqrt(np.linalg.inv(precision)[1, 1]))
    distance = min(size * spread, WIDEST_STEP)
    lean = float(-precision[0, 1] / precision[0, 0])  # how the best v moves with w
    rows = {0: _row(density, mode[1], mode[0], narrow, size)}
    top = rows[0].top
    for way in (1, -1):
        last, before = rows[0], None
        for nth in range(1, ROUNDS):
            w = mode[1] + way * nth * distance
            if abs(w) > WIDEST:
                break
            moved = way * distance * lean if before is None else last.middle - before.middle
            wider = 1.0 if before is None else np.clip(last.sd / before.sd, 0.5, 2.0)
            fresh = _row(density, w, last.middle + moved, last.sd * wider, size)
            rows[way * nth] = fresh
            top = max(top, fresh.top)
            if fresh.top < top - DROP:
                break
            last, before = fresh, last
    kept = [rows[nth] for nth in sorted(rows) if rows[nth].top > top - DROP or nth == 0]
    if len(kept) == 1:  # all of it in one row: its neighbours, however low
        kept = [rows[nth] for nth in sorted(rows)]
    place, value = [], []
    for j, one in enumerate(kept):
        near = np.flatnonzero(one.value > top - DROP)
        near = (
            np.arange(near[0], near[-1] + 1) if near.size else np.array([int(np.argmax(one.value))])
        )
        place.append(np.stack([np.full(near.size, j), one.nth[near]], axis=1))
        value.append(one.value[near])
    return Lattice(
        np.array([one.w for one in kept]),
        np.array([one.centre for one in kept]),
        np.array([one.step for one in kept]),
        np.concatenate(place),
        np.concatenate(value),
    )


@dataclass(frozen=True)
class _Row:
    """The density at one w, on v = centre + nth step."""

    w: float
    centre: float
    step: float
    nth: IntArray  # (points,), increasing by one
    value: FloatArray

    @property
    def top(self) -> float:
        return float(self.value.max())

    @cached_property
    def _weight(self) -> FloatArray:
        mass = np.exp(self.value - self.value.max())
        return np.asarray(mass / mass.sum())

    @property
    def middle(self) -> float:
        """The mean of v."""
        return self.centre + self.step * float(self._weight @ self.nth)

    @property
    def sd(self) -> float:
        """Of v."""
        mean = float(self._weight @ self.nth)
        return self.step * max(float(np.sqrt(self._weight @ (self.nth - mean) ** 2)), 0.1)


def _row(density: Density, w: float, centre: float, sd: float, size: float) -> _Row:
    """A row as far as it matters, with a step that suits its own spread."""
    found = None
    for _ in range(TRIES):
        found = _filled(density, w, centre, min(size * sd, WIDEST_STEP))
        fits = 0.75 * size < found.step / found.sd < 1.4 * size
        capped = found.step >= WIDEST_STEP and found.sd >= WIDEST_STEP / size
        if (fits or capped) and abs(found.middle - centre) < 2 * found.sd:
            break
        centre, sd = found.middle, found.sd
    assert found is not None
    return found


def _filled(density: Density, w: float, centre: float, step: float) -> _Row:
    nth = np.arange(-BLOCK, BLOCK + 1)

    def at(places: IntArray) -> FloatArray:
        v = centre + places * step
        value = density(np.stack([np.clip(v, -WIDEST, WIDEST), np.full(v.size, w)], axis=1))
        return np.where(np.abs(v) < WIDEST, value, -np.inf)

    value = at(nth)
    for _ in range(ROUNDS):
        low, high = value[0] > value.max() - DROP, value[-1] > value.max() - DROP
        if not (low or high) or nth.size > MOST:
            break
        if low:
            fresh = np.arange(nth[0] - BLOCK, nth[0])
            nth, value = np.concatenate([fresh, nth]), np.concatenate([at(fresh), value])
        if high:
            fresh = np.arange(nth[-1] + 1, nth[-1] + 1 + BLOCK)
            nth, value = np.concatenate([nth, fresh]), np.concatenate([value, at(fresh)])
    return _Row(w, centre, step, nth, np.maximum(value, -1e300))


def _mode(density: Density, rough: Density) -> tuple[FloatArray, FloatArray]:
    """A point near the highest, and the curvature of the log density there, (2, 2).

    Newton's method, with derivatives from the eight points about the last, which stand about an sd
    away.
    """
    best, reach = FIRST[int(np.argmax(rough(FIRST)))], np.array([16 / 12, 24 / 12])
    compass = np.array([[i, j] for i in (-1, 0, 1) for j in (-1, 0, 1)], dtype=float)
    around = np.zeros(9)
    for _ in range(SEARCH):
        points = np.clip(best + compass * reach, -WIDEST, WIDEST)
        around = density(points)
        low, high = around[[1, 3]], around[[7, 5]]  # (v, w)
        bend = (2 * around[4] - low - high) / reach**2
        fall = around[4] - np.minimum(low, high)
        nth = int(np.argmax(around))
        if nth == 4 and fall.min() > NEAR[0] and fall.max() < NEAR[1]:
            break
        wanted = np.where(bend > 0, 1 / np.sqrt(np.maximum(bend, 1e-300)), 2 * reach)
        if nth == 4:
            reach = np.clip(wanted, reach / 8, np.minimum(2 * reach, 2.0))
            if reach.max() < LEAST:
                break
            continue
        step = _newton(around, reach)
        tries = best + np.outer([1.0, 0.5, 0.2], np.clip(step, -6 * reach, 6 * reach))
        tries = np.concatenate([points[nth : nth + 1], np.clip(tries, -WIDEST, WIDEST)])
        best = tries[int(np.argmax(np.append(around[nth], density(tries[1:]))))]
        reach = np.clip(wanted, reach / 4, np.minimum(2 * reach, 2.0))
    return best, _precision(around, reach)


def _newton(around: FloatArray, reach: FloatArray) -> FloatArray:
    """The step to where the parabola through nine points is highest; uphill if it has no peak."""
    slope = (around[[7, 5]] - around[[1, 3]]) / (2 * reach)
    bend = (2 * around[4] - around[[1, 3]] - around[[7, 5]]) / reach**2
    cross = -(around[0] - around[2] - around[6] + around[8]) / (4 * reach[0] * reach[1])
    if bend.min() > 0 and bend[0] * bend[1] > cross**2:
        curvature = np.array([[bend[0], cross], [cross, bend[1]]])
        return np.asarray(np.linalg.solve(curvature, slope))
    return np.asarray(np.sign(slope) * 4 * reach)


def _precision(around: FloatArray, reach: FloatArray) -> FloatArray:
    """The curvature at a point (the fifth of nine), from the points beside it and the corners."""
    low, high = around[[1, 3]], around[[7, 5]]  # (v, w)
    bend = np.maximum((2 * around[4] - low - high) / reach**2, 1e-12)
    cross = -(around[0] - around[2] - around[6] + around[8]) / (4 * reach[0] * reach[1])
    most = 0.95 * np.sqrt(bend[0] * bend[1])
    cross = float(np.clip(cross, -most, most))
    return np.array([[bend[0], cross], [cross, bend[1]]])
