"""Which of the released columns are asked for, and their statistics in the sampler's order."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import cast

import numpy as np

from noisewise.artifact import Release
from noisewise.inference.columns.cone import Cone
from noisewise.inference.columns.target import Data
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

    @property
    def cone(self) -> Cone:
        """Their moments' coordinates."""
        first = len(self.columns) - self.responses
        return Cone.of(
            [
                (len(one.names), isinstance(one, Factor), place >= first)
                for place, one in enumerate(self.columns)
            ]
        )

    def data(self, releases: Sequence[Release]) -> Data:
        """Of releases that are alike in family and kinds of noise."""
        numbers = len(self.family.numbers)
        place = {j: i for i, j in enumerate(self.positions.tolist())}
        chosen = [
            (index, sorted((place[j], place[k])))
            for index, (j, k) in enumerate(self.family.products)
            if j in place and k in place
        ]
        which = [numbers + index for index, _ in chosen]
        pairs = np.array([pair for _, pair in chosen], dtype=np.int64).reshape(-1, 2)
        numeric = np.array([isinstance(one, Number) for one in self.columns for _ in one.names])
        less = np.where((pairs[:, 0] == pairs[:, 1]) & numeric[pairs[:, 0]], self.family.less, 0.0)
        y = np.array([one.statistic for one in releases])
        scale = np.array([one.noise.scales for one in releases])
        sizes = np.array([abs(one.count.value) if one.count else one.n or 0 for one in releases])
        scale = np.maximum(scale, ROUNDING * sizes[:, None])
        first, sums = releases[0], self.positions
        counts = [one.count for one in releases if one.count is not None]
        count = count_scale = None
        if counts:
            count = np.array([one.value for one in counts])
            count_scale = np.array([float(one.noise.scales[0]) for one in counts])
        return Data(
            y[:, sums],
            y[:, which],
            (pairs[:, 0], pairs[:, 1]),
            less,
            scale[:, sums],
            scale[:, which],
            first.noise.shape,
            None if first.n is None else np.array([float(cast(int, one.n)) for one in releases]),
            count,
            count_scale,
            counts[0].noise.shape if counts else None,
        )


def alike(release: Release) -> tuple[object, ...]:
    """What two releases must share to be sampled in one batch."""
    count = None if release.count is None else release.count.noise.kind
    return (release.family, release.noise.kind, release.n is None, count)


def own_units(columns: Sequence[Number]) -> tuple[FloatArray, FloatArray]:
    """The centre and the radius of each column."""
    return (
        np.array([one.bounds.middle for one in columns]),
        np.array([one.bounds.radius for one in columns]),
    )
