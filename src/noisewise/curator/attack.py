"""Tests that tell the releases of one table from those of another, and how much privacy they show
to be spent.

A test is an event E that a release may show. If E has at least the probability p under one table
and at most q under the other, then epsilon is at least log(p/q), and rho is at least D/a for the
Renyi divergence D of these two coins of any order a > 1: whoever sees E alone sees no more. For rho
there is one more test, of a function g instead of an event: rho is at least log E1[exp((a - 1)
g)]/(a - 1) - log E2[exp(a g)]/a (by Hoelder's inequality; Birrell et al. 2021), which is sharp at
the likelihood ratio. Confidence limits of p and q (Clopper & Pearson 1934) and of both means
(Maurer & Pontil 2009) make them lower bounds that hold whatever the mechanism does, on releases
that had no part in choosing the test.
"""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import product
from typing import Literal, Protocol, final

import numpy as np
from numpy.typing import NDArray
from scipy import special

from noisewise.mechanism.privacy import Currency
from noisewise.model.arrays import FloatArray

Kind = Literal["ratio", "number", "sum", "hit"]
"""What a test looks at."""
KINDS: tuple[Kind, ...] = ("ratio", "number", "sum", "hit")
"""One test of each kind is tried in earnest: the declared likelihood ratio, one number, several
added up, exact values.
"""
Numbers = NDArray[np.int_]
"""How often each of some events came."""
Counts = tuple[Numbers, int, Numbers, int]
"""How often some events came among how many releases of one table, and of the other."""
LEVELS = np.linspace(0.002, 0.998, 200)
"""Thresholds are tried at these quantiles of what was released: close enough together that none
between them would show much more.
"""
ORDERS = np.array([1.05, 1.2, 1.5, 2.0, 3.0, 5.0, 10.0])
"""Of the Renyi divergence of two coins: near 1 for likely events, high for rare ones."""
RATIO_ORDERS = (1.1, 1.2, 1.5, 2.0, 3.0, 5.0)
"""Of the divergence that a likelihood ratio bounds; above 5 its mean is that of a few releases."""
RATIO_CLIPS = (0.5, 1.0, 2.0, 4.0)
"""Where the likelihood ratio is clipped, either side: the wider, the more releases it takes."""
RATIO_STRETCHES = (1.0, 2.0, 4.0)
"""What the ratio is multiplied by before: more, if more is spent than declared."""
REACH = 10
"""Two numbers are added up if they stand less far than this from each other: of many numbers, all
pairs would be too many.
"""
SEEN = 10
"""How often a value must have been seen to be taken for more than one point of many."""


@final
@dataclass(frozen=True, slots=True)
class View:
    """A number that is made of each release."""

    name: str
    kind: Kind
    of: Callable[[FloatArray], FloatArray]  # (runs, d) -> (runs,)

    @classmethod
    def weighted(cls, name: str, kind: Kind, weights: FloatArray) -> "View":
        return cls(name, kind, lambda y: np.asarray((y * weights).sum(axis=1)))


class Test(Protocol):
    """Something to look for in releases."""

    @property
    def words(self) -> str:
        """What it looks at, in plain words."""

    def shows(
        self, first: FloatArray, second: FloatArray, miss: float, currency: Currency
    ) -> float:
        """What is spent at least; each of two limits fails with the probability `miss`."""


@final
@dataclass(frozen=True, slots=True)
class Event:
    """The numbers of a release lie where they are likelier under one of the two tables."""

    words: str
    happens: Callable[[FloatArray], NDArray[np.bool_]]
    swapped: bool
    """Whether it is likelier under the second table."""

    def shows(
        self, first: FloatArray, second: FloatArray, miss: float, currency: Currency
    ) -> float:
        right, wrong = (second, first) if self.swapped else (first, second)
        p, q = (np.array([self.happens(y).sum()]) for y in (right, wrong))
        return float(_least(p, len(right), q, len(wrong), miss, currency)[0])


@final
@dataclass(frozen=True, slots=True)
class Ratio:
    """The function g of the bound on rho: the declared log likelihood ratio, stretched and then
    clipped at +-most.
    """

    view: View
    swapped: bool
    order: float
    most: float
    stretch: float

    @property
    def words(self) -> str:
        return f"{self.view.name}, its mean"

    def shows(
        self, first: FloatArray, second: FloatArray, miss: float, currency: Currency
    ) -> float:
        sign = -1.0 if self.swapped else 1.0
        right, wrong = (second, first) if self.swapped else (first, second)
        g1, g2 = (
            np.clip(sign * self.stretch * self.view.of(y), -self.most, self.most)
            for y in (right, wrong)
        )
        low = _mean_limit(
            np.exp((self.order - 1) * g1), math.exp((self.order - 1) * self.most), -1, miss
        )
        high = _mean_limit(np.exp(self.order * g2), math.exp(self.order * self.most), 1, miss)
        return (
            math.log(low) / (self.order - 1) - math.log(high) / self.order if low > 0 else -math.inf
        )


def views(
    names: tuple[str, ...], first: FloatArray, second: FloatArray, moved: FloatArray
) -> Iterator[View]:
    """Each number, the sums and differences of two that the tables tell apart, all together, and
    the sum that tells them best.

    first, second: releases of the two tables; moved: how far the numbers lie apart before their
    noise.
    """
    d = len(names)
    one = np.eye(d)
    for j in range(d):
        yield View.weighted(names[j], "number", one[j])
    if d == 1:
        return
    for i in range(d):
        for j in range(i + 1, min(i + REACH, d)):
            if moved[i] or moved[j]:
                yield View.weighted(f"{names[i]} plus {names[j]}", "sum", one[i] + one[j])
                yield View.weighted(f"{names[i]} minus {names[j]}", "sum", one[i] - one[j])
    yield View.weighted("the sum of all numbers", "sum", np.ones(d))
    if len(first) > d:
        yield View.weighted(
            "a weighted sum of all numbers", "sum", _discriminant(first, second, moved)
        )
    # Weights without a common measure: no two combinations of whole numbers give the same.
    yield View.weighted("all numbers together", "hit", np.random.default_rng(1).uniform(1, 2, d))


def _discriminant(first: FloatArray, second: FloatArray, moved: FloatArray) -> FloatArray:
    """Fisher's: the shift over the covariance of the noise. It finds any weighted sum in which the
    noise cancels.
    """
    noise = np.cov((first - first.mean(axis=0)).T) + np.cov((second - second.mean(axis=0)).T)
    weights = np.linalg.lstsq(noise + 1e-12 * np.trace(noise) * np.eye(len(noise)), moved)[0]
    return np.asarray(weights / max(float(np.abs(weights).max()), 1e-300))


def strongest(
    first: FloatArray, second: FloatArray, looks: list[View], miss: float, currency: Currency
) -> dict[Kind, tuple[float, Test]]:
    """Of each kind the test that shows most on these releases, and what it shows there."""
    best: dict[Kind, tuple[float, Test]] = {}
    for swapped, right, wrong in ((False, first, second), (True, second, first)):
        for view in looks:
            for kind, counts, test in _tests(view, right, wrong, swapped):
                shown = _least(*counts, miss, currency)
                k = int(shown.argmax())
                if kind not in best or shown[k] > best[kind][0]:
                    best[kind] = float(shown[k]), test(k)
            if view.kind == "ratio" and currency == "rho":
                shapes = product(RATIO_ORDERS, RATIO_CLIPS, RATIO_STRETCHES)
                for ratio in (Ratio(view, swapped, *shape) for shape in shapes):
                    if (score := ratio.shows(first, second, miss, currency)) > best["ratio"][0]:
                        best["ratio"] = score, ratio
    return best


def _tests(
    view: View, right: FloatArray, wrong: FloatArray, swapped: bool
) -> Iterator[tuple[Kind, Counts, Callable[[int], Test]]]:
    """Events by the dozen: how often each happens among the releases, and the test that looks for
    one of them.
    """
    z1, z2 = view.of(right), view.of(wrong)
    both = np.concatenate([z1, z2])
    if view.kind != "hit":
        levels = np.unique(np.quantile(both, LEVELS, method="higher"))
        above1, above2 = (len(z) - np.searchsorted(np.sort(z), levels) for z in (z1, z2))
        words = f"{view.name}, against a threshold"
        yield (
            view.kind,
            (above1, len(z1), above2, len(z2)),
            lambda k: Event(words, lambda y: view.of(y) >= levels[k], swapped),
        )
        below = len(z1) - above1, len(z1), len(z2) - above2, len(z2)
        yield view.kind, below, lambda k: Event(words, lambda y: view.of(y) < levels[k], swapped)
    if view.kind == "ratio":
        return
    values, place, times = np.unique(both, return_inverse=True, return_counts=True)
    seen = np.flatnonzero(times >= SEEN)
    if not seen.size:
        return
    hits1, hits2 = (
        np.bincount(one, minlength=len(values))[seen]
        for one in (place[: len(z1)], place[len(z1) :])
    )
    order = np.argsort(-(hits1 + 0.5) / (hits2 + 0.5), kind="stable")
    counts = hits1[order].cumsum(), len(z1), hits2[order].cumsum(), len(z2)
    sets = values[seen][order]
    yield (
        "hit",
        counts,
        lambda k: Event(
            f"{view.name}, hit exactly", lambda y: np.isin(view.of(y), sets[: k + 1]), swapped
        ),
    )


def _least(p: Numbers, n: int, q: Numbers, m: int, miss: float, currency: Currency) -> FloatArray:
    """What is spent at least, where an event came p times of n under one table and q times of m
    under the other.
    """
    low = np.where(p > 0, special.betaincinv(np.maximum(p, 1), n - p + 1, miss), 0.0)
    high = np.where(q < m, special.betainccinv(q + 1, np.maximum(m - q, 1), miss), 1.0)
    with np.errstate(divide="ignore", invalid="ignore"):
        epsilon = np.log(low / high)
        if currency == "epsilon":
            return np.asarray(epsilon)
        a = ORDERS[:, None]
        divergence = np.log(low**a * high ** (1 - a) + (1 - low) ** a * (1 - high) ** (1 - a)) / (
            a - 1
        )
        return np.where(low > high, (divergence / a).max(axis=0), epsilon)


def _mean_limit(x: FloatArray, most: float, sign: int, miss: float) -> float:
    """A lower (-1) or upper (1) confidence limit of the mean of numbers between 0 and `most`:
    Maurer & Pontil's Theorem 4.
    """
    away = math.log(2 / miss)
    return float(
        x.mean()
        + sign
        * (math.sqrt(2 * x.var(ddof=1) * away / len(x)) + 7 * most * away / (3 * (len(x) - 1)))
    )
