"""Which of the released columns are asked for, and their statistics in the sampler's order."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import cast

import numpy as np

from noisewise.artifact import Release
from noisewise.inference.columns.cone import Cone
from noisewise.inference.columns.target import SHARP, Data
from noisewise.model.arrays import FloatArray, IntArray
from noisewise.model.columns import Factor, Number
from noisewise.model.families.moments import Moments

ROUNDING = 16 * np.finfo(float).eps
"""Of a sum over the records, for each of them: noise is not smaller than that of the floats."""


@dataclass(frozen=True, slots=True)
class Asked:
    """Some columns of a release, factors first, the responses last. The others play no part."""

    family: Moments
    columns: tuple[Number | Factor, ...]
    responses: int
    """How many of the last are responses."""

    @classmethod
    def of(
        cls,
        family: Moments,
        covariates: Sequence[Number | Factor],
        responses: Sequence[Number | Factor],
    ) -> "Asked":
        """A factor of one level is constant, and is left out."""
        known = [one for one in covariates if one.names]
        ordered = sorted(known, key=lambda one: isinstance(one, Number))
        return cls(family, (*ordered, *responses), len(responses))

    @property
    def names(self) -> tuple[str, ...]:
        """Of the numbers, in the sampler's order."""
        return tuple(name for one in self.columns for name in one.names)

    @property
    def positions(self) -> IntArray:
        """Where each number stands among the released ones."""
        numbers = self.family.numbers
        return np.array([numbers.index(name) for name in self.names], dtype=np.int64)

    def cone(self, widths: FloatArray | None = None) -> Cone:
        """Their moments' coordinates; `widths` are the prior sds of a response's coefficients."""
        first = len(self.columns) - self.responses
        columns = [
            (len(one.names), isinstance(one, Factor), place >= first)
            for place, one in enumerate(self.columns)
        ]
        return Cone.of(columns, widths)

    def data(self, groups: Sequence[Sequence[Release]]) -> Data:
        """Of groups that are alike, each of one release or of several of different records."""
        numbers = len(self.family.numbers)
        place = {j: i for i, j in enumerate(self.positions.tolist())}
        chosen = sorted(
            (sorted((place[j], place[k])), index)
            for index, (j, k) in enumerate(self.family.products)
            if j in place and k in place
        )
        which = [*self.positions.tolist(), *(numbers + index for _, index in chosen)]
        pairs = np.array([pair for pair, _ in chosen], dtype=np.int64).reshape(-1, 2)
        numeric = np.array([isinstance(one, Number) for one in self.columns for _ in one.names])
        less = np.where((pairs[:, 0] == pairs[:, 1]) & numeric[pairs[:, 0]], self.family.less, 0.0)
        y = np.array([[_noisy(one, which) for one in group] for group in groups])
        scale = np.array([[_scales(one, which) for one in group] for group in groups])
        first = groups[0]
        most = None
        if first[0].n is not None:
            most = np.array([[float(cast(int, one.n)) for one in group] for group in groups])
        counts = [one.count.noise.shape for one in first if one.count is not None]
        return Data(
            y,
            scale,
            (pairs[:, 0], pairs[:, 1]),
            less,
            [one.noise.shape for one in first],
            counts or None,
            most,
        )


def steady(
    releases: Sequence[Release], columns: Sequence[Number | Factor]
) -> tuple[Number | Factor, ...]:
    """Covariates in order, factors first: where noise leaves numbers vague, those that vary most
    beside the ones before come first.

    Where a column hardly varies beside those before it, its part in a later column is known as
    little, and with it what that column varies by itself: chains would have to follow a ridge as
    narrow as the noise. In this order hardly anything comes after.
    """
    asked = Asked.of(cast(Moments, releases[0].family), columns, [])
    given = [one for one in asked.columns if isinstance(one, Number)]
    if len(given) < 2:
        return asked.columns
    data = asked.data([releases])
    n = np.maximum(data.y[:, :, -1], 1.0) if data.most is None else data.most
    noise = float(np.sqrt(np.median(data.variance[0].sum(axis=0)))) / float(n.sum())
    if noise > SHARP:
        return asked.columns
    parts = (np.clip(one, -1, 1) for one in data.moments(n, asked.cone()))  # absurd ones too
    mean, moment = (np.tensordot(n[0] / n.sum(), one, axes=1) for one in parts)
    c, q = moment - np.outer(mean, mean), len(mean)
    first = q - len(given)
    for one in range(first):
        c = _without(c, one, noise)
    left, pivots = c, []
    for one in range(first, q):
        pivots.append(left[one, one])
        left = _without(left, one, noise)
    if min(pivots) > np.sqrt(noise):
        return asked.columns
    ordered: list[int] = []
    for _ in given:
        others = [one for one in range(first, q) if one not in ordered]
        ordered.append(max(others, key=lambda one: float(c[one, one])))
        c = _without(c, ordered[-1], noise)
    factors = asked.columns[: -len(given)]
    return (*factors, *(given[one - first] for one in ordered))


def _without(c: FloatArray, one: int, noise: float) -> FloatArray:
    """What a column leaves of the covariance of the others."""
    return c - np.outer(c[one], c[one]) / max(float(c[one, one]), noise)


def _noisy(release: Release, which: Sequence[int]) -> list[float]:
    """The statistics that are asked for, and the count."""
    statistics = [release.statistic[j] for j in which]
    return statistics if release.count is None else [*statistics, release.count.value]


def _scales(release: Release, which: Sequence[int]) -> list[float]:
    """Of their noise."""
    size = abs(release.count.value) if release.count else release.n or 0
    every = release.noise.scales
    scales = [max(float(every[j]), ROUNDING * size) for j in which]
    return scales if release.count is None else [*scales, float(release.count.noise.scales[0])]


def strange(releases: Sequence[Release]) -> str | None:
    """Why the noise of these releases, or their sizes, cannot be sampled together, if so."""
    counts = [one.count for one in releases if one.count is not None]
    noises = [one.noise for one in releases] + [count.noise for count in counts]
    if not all(noise.shape.mixes for noise in noises):
        return "several columns need Laplace or normal noise; this one is neither"
    if any(noise.discrete and np.any(noise.steps > noise.scales) for noise in noises):
        return "the steps of the noise are coarser than its scale; several columns need finer ones"
    if counts and len(counts) < len(releases):
        return "some of the releases have a noisy count and others a public n; give either kind"
    if len({one.n is None for one in releases}) > 1:
        return "some of the releases have a public n and others none; give either kind"
    return None


def alike(releases: Sequence[Release]) -> tuple[object, ...]:
    """What two groups must share to be sampled in one batch."""
    return (releases[0].family, *map(_kind, releases))


def _kind(release: Release) -> tuple[object, ...]:
    count = None if release.count is None else release.count.noise.kind
    return (release.noise.kind, release.n is None, count)


def own_units(columns: Sequence[Number]) -> tuple[FloatArray, FloatArray]:
    """The centre and the radius of each column."""
    return (
        np.array([one.bounds.middle for one in columns]),
        np.array([one.bounds.radius for one in columns]),
    )
