"""Moves of a chain over true counts: a slice of one count of a pair, or of one by itself, and a
walk in its logarithm.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import special

from noisewise.inference.methods.categorical.factors import log_rising
from noisewise.mechanism.noise import Shape
from noisewise.model.arrays import FloatArray

OF_A_MOVE = 6
"""Evaluations that a move takes besides those of its slice."""
OF_A_ROUND = 256
"""What a round of a slice costs however few are left in it."""
STRETCH = 2.0
"""Step of the walk in the logarithm of a count."""


@dataclass(slots=True)
class Work:
    """What a run has cost so far, the same on every machine."""

    done: int = 0


def rounded(s: FloatArray, step: FloatArray) -> FloatArray:
    """The counts to which noise was added: on the noise's lattice where that is coarser than the
    whole numbers.
    """
    return s if np.all(step <= 1) else np.where(step > 1, step * np.floor(s / step + 0.5), s)


@dataclass(frozen=True, slots=True)
class PairOfCounts:
    """The conditional of one count of a pair, given their total."""

    y1: FloatArray
    y2: FloatArray
    a1: FloatArray
    a2: FloatArray
    scale1: FloatArray
    scale2: FloatArray
    step1: FloatArray
    step2: FloatArray
    total: FloatArray  # (chains, pairs)
    shape: Shape

    def _each(self, change: Callable[[FloatArray], FloatArray]) -> "PairOfCounts":
        y1, y2, a1, a2 = map(change, (self.y1, self.y2, self.a1, self.a2))
        scale1, scale2, step1, step2 = map(
            change, (self.scale1, self.scale2, self.step1, self.step2)
        )
        return PairOfCounts(
            y1, y2, a1, a2, scale1, scale2, step1, step2, change(self.total), self.shape
        )

    def flat(self) -> "PairOfCounts":
        """Every pair of every chain in one row."""
        return self._each(lambda field: np.broadcast_to(field, self.total.shape).ravel())

    def take(self, rows: NDArray[np.bool_]) -> "PairOfCounts":
        """Some of a flat row."""
        return self._each(lambda field: field[rows])

    def noise(self, x: FloatArray) -> FloatArray:
        """Log density of the noise, up to a constant; at most 0."""
        first = self.shape.log_kernel(self.y1 - rounded(x, self.step1), self.scale1)
        rest = rounded(self.total - x, self.step2)
        return first + self.shape.log_kernel(self.y2 - rest, self.scale2)

    def prior(self, x: FloatArray) -> FloatArray:
        """Log of the Beta-binomial weight, up to a constant."""
        rest = self.total - x
        return log_rising(self.a1, x) + log_rising(self.a2, rest)

    def highest_prior(self) -> FloatArray:
        """No count of the pair has a prior above this: it peaks inside if both concentrations
        exceed 1, else at an end.
        """
        b1, b2 = self.a1 - 1, self.a2 - 1
        inside = (b1 > 0) & (b2 > 0)
        mode = np.where(
            inside,
            (b1 * (self.total + self.a2 / 2) - b2 * self.a1 / 2) / np.where(inside, b1 + b2, 1.0),
            0.0,
        )
        tried = (np.zeros_like(self.total), self.total, np.clip(mode, 0.0, self.total))
        return np.asarray(np.maximum.reduce([self.prior(x) for x in tried]) + 0.1)

    def bracket(self, level: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Whole numbers outside which the slice {log density >= level} cannot lie."""
        most = np.maximum(self.highest_prior() - level, 0.0)
        far1 = self.shape.reach(most, self.scale1) + self.step1 / 2
        far2 = self.shape.reach(most, self.scale2) + self.step2 / 2
        low = np.maximum(self.y1 - far1, self.total - self.y2 - far2)
        high = np.minimum(self.y1 + far1, self.total - self.y2 + far2)
        return np.clip(np.ceil(low), 0.0, self.total), np.clip(np.floor(high), 0.0, self.total)


@dataclass(frozen=True, slots=True)
class OneCount:
    """The conditional of one count given u, where n is not public."""

    y: FloatArray
    a: FloatArray
    scale: FloatArray
    step: FloatArray
    log_u: FloatArray
    shape: Shape

    def flat(self) -> "OneCount":
        """Every count of every chain in one row."""
        return self.each(np.ravel)

    def take(self, rows: NDArray[np.bool_]) -> "OneCount":
        """Some of a flat row."""
        return self.each(lambda field: field[rows])

    def each(self, change: Callable[[FloatArray], FloatArray]) -> "OneCount":
        """With every field changed."""
        y, a, scale, step, log_u = map(change, (self.y, self.a, self.scale, self.step, self.log_u))
        return OneCount(y, a, scale, step, log_u, self.shape)

    def noise(self, x: FloatArray) -> FloatArray:
        """Log density of the noise, up to a constant; at most 0."""
        return self.shape.log_kernel(self.y - rounded(x, self.step), self.scale)

    def prior(self, x: FloatArray) -> FloatArray:
        """Log weight of the count, up to a constant."""
        return log_rising(self.a, x) + x * self.log_u

    def bracket(self, level: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Whole numbers outside which the slice {log density >= level} cannot lie."""
        # The weight of x + 1 over that of x is u (a + x)/(x + 1): it rises up to this x, and falls
        # from then on.
        mode = np.maximum(
            np.floor((self.a * np.exp(self.log_u) - 1) / -np.expm1(self.log_u)) + 1, 0.0
        )
        highest = self.prior(mode) + 0.1
        most = np.maximum(highest - level, 0.0)
        far = self.shape.reach(most, self.scale) + self.step / 2
        return np.maximum(np.ceil(self.y - far), 0.0), np.maximum(np.floor(self.y + far), 0.0)


def slice_sample(
    pair: "PairOfCounts | OneCount", x: FloatArray, rng: np.random.Generator, work: "Work | None"
) -> FloatArray:
    """Neal's slice sampler with shrinkage, from a bracket that holds the whole slice and depends on
    its level alone.
    """
    level = pair.prior(x) + pair.noise(x) - rng.standard_exponential(x.shape)
    low, high = pair.bracket(level)
    low, high = np.minimum(low, x), np.maximum(high, x)  # rounding
    out = x.copy().ravel()
    active = np.arange(out.size)
    low, high, level, start = low.ravel(), high.ravel(), level.ravel(), x.ravel()
    here = pair.flat()
    if work is not None:
        work.done += OF_A_MOVE * active.size
    while active.size:
        if work is not None:
            work.done += active.size + OF_A_ROUND
        tried = np.floor(low + (high - low + 1) * rng.random(active.size))
        tried = np.minimum(tried, high)
        good = here.prior(tried) + here.noise(tried) >= level
        out[active[good]] = tried[good]
        left = tried < start
        low, high = np.where(left, tried + 1, low), np.where(left, high, tried - 1)
        keep = ~good & (low <= high)
        active, low, high, level, start, here = (
            active[keep],
            low[keep],
            high[keep],
            level[keep],
            start[keep],
            here.take(keep),
        )
    return out.reshape(x.shape)


def stretch(pair: PairOfCounts, x: FloatArray, rng: np.random.Generator) -> FloatArray:
    """A random walk of log(x + u), u uniform on [0, 1): with a concentration below 1 the prior is
    nearly flat in it.

    The pair (x, u) has the density of x; proposals symmetric in the logarithm are accepted on the
    ratio of density times x + u.
    """
    now = x + rng.random(x.shape)
    then = now * np.exp(STRETCH * rng.standard_normal(x.shape))
    proposed = np.floor(np.minimum(then, pair.total + 1))
    possible = proposed <= pair.total
    proposed = np.where(possible, proposed, x)
    gain = (
        pair.prior(proposed)
        + pair.noise(proposed)
        - pair.prior(x)
        - pair.noise(x)
        + np.log(then / now)
    )
    return np.where(possible & (np.log(rng.random(x.shape)) < gain), proposed, x)


def beta(
    a1: FloatArray, a2: FloatArray, shape: tuple[int, ...], rng: np.random.Generator
) -> FloatArray:
    """Beta(a1, a2) by two log-gammas: small concentrations do not become 0/0."""
    logs = [
        np.log(rng.standard_gamma(a + 1, shape)) - rng.standard_exponential(shape) / a
        for a in (a1, a2)
    ]
    return np.asarray(special.expit(logs[0] - logs[1]))
