"""Mixtures of Betas: the law of each of K probabilities once the true counts are summed over."""

from dataclasses import dataclass

import numpy as np
from scipy import special

from noisewise.model.arrays import FloatArray, IntArray

EVEN, TAILS, FEW = 48, 1.5, 8
"""A component holds at most 1/EVEN of the mass, 1 - e^(-1/TAILS) of what is left of a tail; small
counts stay apart.
"""
LEAST = 1e-9
"""Shares of the mass that are nearer to 0 or 1 count as one."""
MANY = 1000.0
"""From this count on, a Beta is a normal with one term of Edgeworth's series, within 10^-4."""
FAR = 9.0
"""Sds from its mean beyond which a Beta's distribution function is 0 or 1."""
_LOWEST, _HIGHEST = -690.0, 37.0
"""Logits of the smallest probability that is a float, and of the largest below 1."""
STEPS = 100
"""Of closing in on a quantile; each at least halves its bracket, and most are Newton's."""


@dataclass(frozen=True, slots=True)
class Betas:
    """Weighted Betas in rows: mean, 1 - mean, and variance over their product. Each is
    (rows, M).
    """

    weight: FloatArray
    mean: FloatArray
    rest: FloatArray
    spread: FloatArray

    @classmethod
    def of(cls, weight: FloatArray, first: FloatArray, second: FloatArray) -> "Betas":
        """Beta(first, second), weighted."""
        total = first + second
        shape = weight.shape
        return cls(weight, first / total, second / total, np.broadcast_to(1 / (total + 1), shape))

    @property
    def moments(self) -> tuple[FloatArray, FloatArray]:
        """Mean and sd of each row."""
        one = self.merge(np.zeros(self.weight.shape, dtype=np.int64))
        sd = np.sqrt(one.mean) * np.sqrt(one.rest) * np.sqrt(one.spread)
        return one.mean[:, 0], sd[:, 0]

    def fewer(self) -> "Betas":
        """Some hundred Betas in place of all: neighbours become one of the same mean
        and variance.
        """
        below = np.cumsum(self.weight, axis=1)
        share = np.clip(
            (below - self.weight / 2) / np.where(below[:, -1:] > 0, below[:, -1:], 1.0),
            LEAST,
            1 - LEAST,
        )
        level = np.floor(EVEN * share + TAILS * special.logit(share))
        total = 1 / self.spread - 1
        for part in (self.mean * total, self.rest * total):  # Betas of a few counts differ in shape
            level = level * (FEW + 1) + np.floor(np.minimum(part, FEW))
        order = np.argsort(level, axis=1, kind="stable")
        ranked = np.take_along_axis(level, order, axis=1)
        place = np.zeros(level.shape, dtype=np.int64)
        np.put_along_axis(
            place, order[:, 1:], np.cumsum(np.diff(ranked, axis=1) > 0, axis=1), axis=1
        )
        return self.merge(place)

    def merge(self, to: IntArray) -> "Betas":
        """One Beta for all of a row that go to the same place, of their mean and variance."""
        size = int(to.max()) + 1
        flat = (to + size * np.arange(len(to))[:, None]).ravel()

        def gathered(values: FloatArray) -> FloatArray:
            return np.asarray(
                np.bincount(flat, values.ravel(), size * len(to)), dtype=np.float64
            ).reshape(len(to), size)

        weight = gathered(self.weight)
        some = np.where(weight > 0, weight, 1.0)
        mean, rest = (
            np.where(weight > 0, gathered(self.weight * m) / some, 0.5)
            for m in (self.mean, self.rest)
        )
        here, other = np.take_along_axis(mean, to, axis=1), np.take_along_axis(rest, to, axis=1)
        apart = self.mean - here
        spread = self.spread * (self.mean / here) * (self.rest / other) + apart / here * (
            apart / other
        )
        return Betas(
            weight, mean, rest, np.where(weight > 0, gathered(self.weight * spread) / some, 0.5)
        )

    def rows_as_one(self, rows: int) -> "Betas":
        """Join every len / rows successive rows to one, sorted by the mean."""
        joined = [
            np.reshape(part, (rows, -1))
            for part in (self.weight, self.mean, self.rest, self.spread)
        ]
        order = np.argsort(joined[1], axis=1)
        return Betas(*(np.take_along_axis(part, order, axis=1) for part in joined))

    def quantiles(self, q: FloatArray) -> FloatArray:
        """Quantiles of each row, (len(q), rows): Newton's method for logit(cdf), nearly linear in
        logit(theta), bracketed.
        """
        rows = len(self.weight)
        share = np.cumsum(self.weight, axis=1)
        share = share / share[:, -1:]
        row, level = np.tile(np.arange(rows), q.size), np.repeat(q, rows)
        at = np.minimum((share[row] < level[:, None]).sum(axis=1), share.shape[1] - 1)
        start = special.logit(np.clip(self.mean, 1e-299, 1 - 1e-16))
        psi = np.clip(start[row, at], _LOWEST, _HIGHEST)
        low, high = np.full(psi.shape, _LOWEST), np.full(psi.shape, _HIGHEST)
        sd = self.moments[1]
        active = np.arange(psi.size)
        goal = special.logit(level)
        for _ in range(STEPS):
            here = psi[active]
            cdf, slope = self._cdf(here, row[active])
            below = cdf < level[active]
            low[active], high[active] = (
                np.where(below, here, low[active]),
                np.where(below, high[active], here),
            )
            with np.errstate(all="ignore"):
                then = here - (special.logit(cdf) - goal[active]) * cdf * (1 - cdf) / slope
            inside = (then > low[active]) & (then < high[active])
            then = np.where(inside, then, (low[active] + high[active]) / 2)
            psi[active] = then
            change = np.abs(then - here)
            x = special.expit(then)
            active = active[
                (change > 1e-9)
                & (change > 1e-5 * sd[row[active]] / np.maximum(x * (1 - x), 1e-300))
                | (change > 1e-3)
            ]
            if active.size == 0:
                break
        return np.asarray(special.expit(psi).reshape(q.size, rows))

    def cdf(self, x: FloatArray) -> FloatArray:
        """The probability of each row's number at or below x, (..., rows)."""
        row = np.broadcast_to(np.arange(len(self.weight)), x.shape).ravel()
        below = self._cdf(special.logit(np.clip(x.ravel(), 1e-300, 1 - 1e-16)), row)[0]
        below = np.where(x.ravel() <= 0, 0.0, np.where(x.ravel() >= 1, 1.0, below))
        return np.asarray(below.reshape(x.shape))

    def _cdf(self, psi: FloatArray, row: IntArray) -> tuple[FloatArray, FloatArray]:
        """The distribution function at expit(psi), and its slope in psi."""
        x, over = special.expit(psi)[:, None], special.expit(-psi)[:, None]
        total = 1 / self.spread[row] - 1
        first, second = self.mean[row] * total, self.rest[row] * total
        weight = self.weight[row] / self.weight[row].sum(axis=1, keepdims=True)
        sd = np.sqrt(self.mean[row]) * np.sqrt(self.rest[row]) * np.sqrt(self.spread[row])
        z = np.where(self.mean[row] < 0.5, x - self.mean[row], self.rest[row] - over) / sd
        least = np.minimum(first, second)
        cdf, slope = (z > 0).astype(float), np.zeros(z.shape)
        used = weight > 0
        normal = used & (least >= MANY) & (np.abs(z) < FAR)
        beta = used & (least < MANY) & ((np.abs(z) < FAR) | (least < 10))
        cdf[normal], slope[normal] = _edgeworth(z[normal], first[normal], second[normal])
        slope[normal] *= np.broadcast_to(x * over, z.shape)[normal] / sd[normal]
        cdf[beta], slope[beta] = _beta(
            first[beta], second[beta], np.broadcast_to(psi[:, None], z.shape)[beta]
        )
        return (weight * cdf).sum(axis=1), (weight * slope).sum(axis=1)


def _edgeworth(
    z: FloatArray, first: FloatArray, second: FloatArray
) -> tuple[FloatArray, FloatArray]:
    # The skewness of Beta(a, b): 2 (b - a)/(a + b + 2) sqrt((a + b + 1)/(a b)).
    total = first + second
    skewness = 2 * (second - first) / (total + 2) * np.sqrt((total + 1) / first / second)
    density = np.exp(-z * z / 2) / np.sqrt(2 * np.pi)
    return np.clip(special.ndtr(z) - density * skewness * (z * z - 1) / 6, 0.0, 1.0), density


def _beta(first: FloatArray, second: FloatArray, psi: FloatArray) -> tuple[FloatArray, FloatArray]:
    log_x, log_over = -np.logaddexp(0.0, -psi), -np.logaddexp(0.0, psi)
    # With so many others the Beta is a Gamma: theta second ~ Gamma(first).
    lopsided, other = second > 1e6 * (first + 1), first > 1e6 * (second + 1)
    cdf = special.betainc(
        np.where(lopsided | other, 1.0, first),
        np.where(lopsided | other, 1.0, second),
        np.exp(log_x),
    )
    cdf = np.where(lopsided, special.gammainc(first, -log_over * (second + (first - 1) / 2)), cdf)
    cdf = np.where(other, special.gammaincc(second, -log_x * (first + (second - 1) / 2)), cdf)
    with np.errstate(all="ignore"):
        slope = np.exp(first * log_x + second * log_over - special.betaln(first, second))
    return cdf, slope
