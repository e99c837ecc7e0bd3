"""The posterior of (v, w), where a population lies and how wide it is, on a lattice about it.

From the highest point found, a lattice in the posterior's own scale grows outwards as long as the
density matters: a sum over it is the integral, with an error that falls exponentially with the
step for anything smooth. Every other point of it makes a coarser lattice, which tells the error.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import scipy

from noisewise.inference.pooling.populations import WIDEST
from noisewise.model.arrays import FloatArray, IntArray

Density = Callable[[FloatArray], FloatArray]
"""(points, 2) -> log density, (points,)."""

STEP = 0.6
"""Of the lattice, in sds of the posterior."""
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
MOST = 4000
"""Points: a lattice that would have more gets a wider step."""
ROUNDS = 400
"""Of growing."""
FINE = 4
"""Cells of the lattice are cut in so many, by splines, for quantiles and draws."""
FLOOR = 22.0
"""What is not on the lattice is e^-22 of the highest there."""


@dataclass(frozen=True)
class Lattice:
    """at = mode + place @ step, with the log density there."""

    mode: FloatArray  # (2,)
    step: FloatArray  # (2, 2): moves of (v, w) for one step of either index; v moves with the first
    place: IntArray  # (points, 2)
    value: FloatArray  # (points,)
    truncated: bool
    """Whether it had to stop at MOST points."""

    @cached_property
    def at(self) -> FloatArray:
        """(v, w), (points, 2)."""
        return np.asarray(self.mode + self.place @ self.step)

    @cached_property
    def weight(self) -> FloatArray:
        """The mass of each point, (points,); they add up to 1."""
        mass = np.exp(self.value - self.value.max())
        return np.asarray(mass / mass.sum())

    @cached_property
    def halves(self) -> tuple[FloatArray, FloatArray]:
        """The weights on the two coarser lattices, of even and of odd points."""
        even = self.place.sum(axis=1) % 2 == 0
        one, other = np.where(even, self.weight, 0.0), np.where(even, 0.0, self.weight)
        return one / one.sum(), other / max(other.sum(), 1e-300)

    @property
    def error(self) -> float:
        """How far the sums over both halves differ, which is more than either errs."""
        even = self.place.sum(axis=1) % 2 == 0
        edge = float(np.exp(-DROP)) * 10
        return abs(float(self.weight[even].sum()) - 0.5) + edge

    @cached_property
    def _fine(self) -> tuple[FloatArray, FloatArray]:
        """A finer lattice: (v, w), and the mass there."""
        low, high = self.place.min(axis=0) - 2, self.place.max(axis=0) + 2
        table = np.full(tuple(high - low + 1), self.value.max() - FLOOR)
        table[tuple((self.place - low).T)] = self.value
        axes = [np.arange(a, b + 1, dtype=float) for a, b in zip(low, high, strict=True)]
        spline = scipy.interpolate.RectBivariateSpline(*axes, table)
        dense = [np.arange(a, b + 0.5 / FINE, 1 / FINE) for a, b in zip(low, high, strict=True)]
        value = spline(*dense)
        i, j = np.nonzero(value > self.value.max() - DROP)
        at = self.mode + np.stack([dense[0][i], dense[1][j]], axis=1) @ self.step
        mass = np.exp(value[i, j] - self.value.max())
        return at, np.asarray(mass / mass.sum())

    def fine(self) -> tuple[FloatArray, FloatArray]:
        """(v, w) of a finer lattice, (points, 2), and the mass there."""
        return self._fine

    def draw(self, rng: np.random.Generator, size: int) -> FloatArray:
        """(v, w), (size, 2)."""
        at, mass = self._fine
        rows = rng.choice(len(at), size, p=mass)
        shift = rng.triangular(-1, 0, 1, (size, 2)) / FINE
        return np.asarray(at[rows] + shift @ self.step)


def lattice(density: Density, rough: Density, step: float = STEP) -> Lattice:
    """Of a density that has one region where it matters; `rough` is a cheaper one, to begin the
    search with.
    """
    mode, scale = _mode(density, rough)
    while True:
        found = _grown(density, mode, step * scale)
        if not found.truncated or step > 4:
            return found
        step *= 1.5


def _mode(density: Density, rough: Density) -> tuple[FloatArray, FloatArray]:
    """A point near the highest, and the posterior's scales there: rows are moves of (v, w).

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
    return best, _scale(around, reach)


def _newton(around: FloatArray, reach: FloatArray) -> FloatArray:
    """The step to where the parabola through nine points is highest; uphill if it has no peak."""
    slope = (around[[7, 5]] - around[[1, 3]]) / (2 * reach)
    bend = (2 * around[4] - around[[1, 3]] - around[[7, 5]]) / reach**2
    cross = -(around[0] - around[2] - around[6] + around[8]) / (4 * reach[0] * reach[1])
    if bend.min() > 0 and bend[0] * bend[1] > cross**2:
        curvature = np.array([[bend[0], cross], [cross, bend[1]]])
        return np.asarray(np.linalg.solve(curvature, slope))
    return np.asarray(np.sign(slope) * 4 * reach)


def _scale(around: FloatArray, reach: FloatArray) -> FloatArray:
    """From the log density at a point (the fifth of nine), beside it and at the corners."""
    low, high = around[[1, 3]], around[[7, 5]]  # (v, w)
    bend = np.maximum((2 * around[4] - low - high) / reach**2, 1e-12)
    cross = -(around[0] - around[2] - around[6] + around[8]) / (4 * reach[0] * reach[1])
    most = 0.95 * np.sqrt(bend[0] * bend[1])
    cross = float(np.clip(cross, -most, most))
    precision = np.array([[bend[0], cross], [cross, bend[1]]])
    scale = np.linalg.cholesky(np.linalg.inv(precision)).T
    size = np.abs(np.diag(scale))
    return np.asarray(scale * np.minimum(1.0, WIDEST_STEP / STEP / size)[:, None])


def _grown(density: Density, mode: FloatArray, step: FloatArray) -> Lattice:
    """The lattice about the mode, as far as the density matters."""
    known: dict[tuple[int, int], float] = {}
    front = [(0, 0)]
    top = -np.inf
    for _ in range(ROUNDS):
        places = np.array(front)
        at = mode + places @ step
        value = np.where((np.abs(at) < WIDEST).all(axis=1), density(at), -np.inf)
        known.update(zip(front, value.tolist(), strict=True))
        top = max(top, float(value.max()))
        grow = [place for place, own in known.items() if own > top - DROP]
        fresh = {
            (i + a, j + b)
            for i, j in grow
            for a, b in ((-1, 0), (1, 0), (0, -1), (0, 1))
            if (i + a, j + b) not in known
        }
        if not fresh or len(known) > MOST:
            break
        front = sorted(fresh)
    kept = [(place, own) for place, own in known.items() if own > top - DROP]
    return Lattice(
        mode,
        step,
        np.array([place for place, _ in kept]),
        np.array([own for _, own in kept]),
        bool(fresh) and len(known) > MOST,
    )
