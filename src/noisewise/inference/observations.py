"""What releases say about theta: the likelihood of their noisy statistics, collapsed or exact, for
many groups at once.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from noisewise.artifact import Release
from noisewise.errors import UnsupportedCombination
from noisewise.inference.likelihood import one_statistic, two_statistics, unknown_count
from noisewise.inference.likelihood.sums import Sums
from noisewise.inference.likelihood.unknown_count import Count
from noisewise.mechanism.noise import Noise, Shape
from noisewise.model.arrays import FloatArray, IntArray
from noisewise.model.bounded_statistic import LATTICE_CELLS, BoundedRecord, Law
from noisewise.model.bounds import Bounds
from noisewise.model.family import Family
from noisewise.model.priors import Prior

ORDERS = (32, 64, 128, 256, 512)
"""Quadrature nodes on either side of the peak: more where the likelihood needs more harmonics."""
MOST_RECORDS = 2.0**46
"""With more, n times a rounding error is no small number any more, and a characteristic function
has no n-th power.
"""
FEW, FEW_ORDER = 3, 256
"""So few records hardly smooth the noise's kink, and their integral needs more nodes."""
PIECE = 1 << 13
"""Thetas whose laws are held at once."""
MOST_SIZES = 1 << 18
"""Pairs of theta and n that are held at once,"""
NEAR = 1 << 14
"""and so many that stay near the processor."""
FEWEST_CELLS = 64
"""A lattice of two statistics with fewer points over its range is always taken as one."""
MOST_BLOCK = 2**50
"""The coarsest rounding of a sum; beyond, whole numbers are no floats of their own."""
MOST_GAP = 30.0
"""Where the exact and the normal likelihood differ by more, in the log, neither matters."""


@dataclass(frozen=True, slots=True)
class Observations:
    """Releases alike in everything but n, statistic and noise scale: one for each group."""

    record: BoundedRecord
    kind: type[Noise]
    block: int  # a sum of whole numbers is itself rounded to a multiple of this; 1 if not
    n: FloatArray  # (groups,); where it is not public, about what it is
    y: FloatArray  # (groups, d)
    scale: FloatArray  # (groups, d)
    public: bool = True
    """Whether n is public."""
    count: Count | None = None
    """Where it is not, its noisy value; a categorical's counts tell."""
    n_prior: Prior | None = None

    @property
    def family(self) -> Family:
        """Of the records."""
        return self.record.family

    @property
    def bounds(self) -> Bounds | None:
        """Of the records."""
        return self.record.bounds

    @property
    def dimension(self) -> int:
        """d, the number of statistics."""
        return int(self.y.shape[1])

    def take(self, rows: "slice | IntArray") -> "Observations":
        """Some of the groups."""
        count = None if self.count is None else self.count.take(rows)
        return replace(self, n=self.n[rows], y=self.y[rows], scale=self.scale[rows], count=count)

    @property
    def shape(self) -> Shape:
        """Of the noise."""
        return self.kind.shape

    def noise(self, group: int = 0) -> Noise:
        """The noise of one group: on a lattice only where that is coarse."""
        scale = tuple(self.scale[group])
        if self.kind.discrete and self.record.steps is not None:
            return self.kind.make(scale, self.record.steps)
        return self.kind.on_numbers.make(scale)

    def sizes(self, theta: FloatArray, rng: np.random.Generator) -> FloatArray:
        """The number of records of the first group, (batch,): where it is not public, drawn given
        each theta and the release, under the normal approximation.
        """
        if self.count is None:
            return np.full(len(theta), self.n[0])
        group = np.zeros(len(theta), dtype=np.int64)
        _, n, log_weight, value = self._summed(*self.record.moments(theta), group)
        log = np.nan_to_num(value + log_weight, nan=-np.inf, posinf=-np.inf)
        below = np.cumsum(np.exp(log - log.max(axis=1, keepdims=True)), axis=1)
        place = (below <= rng.random((len(theta), 1)) * below[:, -1:]).sum(axis=1)
        return np.asarray(np.round(n[np.arange(len(theta)), np.minimum(place, n.shape[1] - 1)]))

    def collapsed(self, theta: FloatArray, group: IntArray) -> FloatArray:
        """log p(y | theta) under the normal approximation; theta (batch, p), group (batch,)."""
        if self.n.size > 1 and theta.shape[1] == 1:  # the moments at a theta serve every group
            own, first = np.unique(theta[:, 0], return_inverse=True)
            mean, covariance = (moment[first] for moment in self.record.moments(own[:, None]))
        else:
            mean, covariance = self.record.moments(theta)
        if self.count is not None:
            return self._summed(mean, covariance, group)[0]
        n = self.n[group]
        return np.where(n > 0, self._collapsed(n, mean, covariance, group), 0.0)

    def _summed(
        self, mean: FloatArray, covariance: FloatArray, group: IntArray
    ) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray]:
        """The collapsed likelihood summed over n; n at the nodes, their log weights, and the log
        likelihood there. Where two statistics take an integral each time, it is computed at few n:
        its difference from statistics taken as independent is smooth in n.
        """
        assert self.count is not None
        n, log_weight = self.count.nodes(*self._seen(mean, covariance, group), group)
        if self._cheap:
            value = self._collapsed_at(n, mean, covariance, group)
        else:
            value = self._independent(n, mean, covariance, group)
            mass = np.nan_to_num(value, nan=-np.inf) + log_weight
            row, number = unknown_count.anchors(n, mass, unknown_count.MANY_SHARES)
            own = mean[row], covariance[row], group[row]
            apart = self._independent(number[:, None], *own)[:, 0]
            gap = np.nan_to_num(self._collapsed(number, *own) - apart, nan=0.0)
            value = value + unknown_count.between(row, number, np.clip(gap, -MOST_GAP, MOST_GAP), n)
        return unknown_count.log_sum(value, log_weight), n, log_weight, value

    def _seen(
        self, mean: FloatArray, covariance: FloatArray, group: IntArray
    ) -> tuple[FloatArray, FloatArray]:
        """Where the statistics see n, and how sharply, (batch, d) each."""
        variance = np.maximum(np.einsum("bdd->bd", covariance), 0.0)
        with np.errstate(all="ignore"):
            peak = np.clip(self.y[group] / mean, 0.0, 2.0**62)
            width = (np.sqrt(np.maximum(peak, 1.0) * variance) + self.scale[group]) / np.abs(mean)
        return peak, width

    def _collapsed(
        self, n: FloatArray, mean: FloatArray, covariance: FloatArray, group: IntArray
    ) -> FloatArray:
        spread = n[:, None, None] * covariance
        if self.block > 1:  # what rounding adds, about
            mean, spread = (
                n[:, None] * mean + (1 - self.block % 2) / 2,
                spread + (self.block**2 - 1) / 12,
            )
        else:
            mean = n[:, None] * mean
        with np.errstate(all="ignore"):  # a theta whose moments are not finite is impossible: NaN
            z = self.y[group] - mean
            return self.shape.log_with_normals(z, spread, self.scale[group])

    def _collapsed_at(
        self, n: FloatArray, mean: FloatArray, covariance: FloatArray, group: IntArray
    ) -> FloatArray:
        """At every n of (batch, sizes)."""
        out = np.empty(n.shape)
        size = max(1, MOST_SIZES // n.shape[1])
        for start in range(0, len(n), size):
            part = slice(start, start + size)
            rows = np.repeat(np.arange(len(n))[part], n.shape[1])
            out[part] = self._collapsed(
                n[part].ravel(), mean[rows], covariance[rows], group[rows]
            ).reshape(-1, n.shape[1])
        return out

    def pilot(self, theta: FloatArray, group: IntArray) -> FloatArray:
        """As collapsed, with the statistics taken as independent: cheap, and with the
        right tails.
        """
        if self._cheap:
            return self.collapsed(theta, group)
        mean, covariance = self.record.moments(theta, "rough")
        if self.count is None:
            value = self._independent(self.n[group][:, None], mean, covariance, group)
            return np.where(self.n[group] > 0, value[:, 0], 0.0)
        n, log_weight = self.count.nodes(*self._seen(mean, covariance, group), group)
        value = self._independent(n, mean, covariance, group)
        return unknown_count.log_sum(value, log_weight)

    @property
    def _cheap(self) -> bool:
        """Whether the normal approximation is in closed form."""
        return self.shape.closed_form or self.dimension == 1

    def _independent(
        self, n: FloatArray, mean: FloatArray, covariance: FloatArray, group: IntArray
    ) -> FloatArray:
        """As collapsed, with the statistics taken as independent, at every n of (batch, sizes)."""
        variance = np.maximum(np.einsum("bdd->bd", covariance), 0.0)
        y, scale = self.y[group], self.scale[group]
        out, size = np.zeros(n.shape), max(1, NEAR // n.shape[1])
        with np.errstate(all="ignore"):
            for start in range(0, len(n), size):
                part = slice(start, start + size)
                for j in range(self.dimension):
                    z = y[part, j, None] - n[part] * mean[part, j, None]
                    spread = n[part] * variance[part, j, None]
                    out[part] += self.shape.log_with_normal(z, spread, scale[part, j, None])
        return out

    def exact(
        self,
        theta: FloatArray,
        group: IntArray,
        slack: FloatArray | None = None,
        least_order: int = 0,
    ) -> tuple[FloatArray, FloatArray]:
        """log p(y | theta) without approximation, and its relative numerical error; `slack` times
        the usual one will do.
        """
        slack = np.ones(len(theta)) if slack is None else slack
        if self.count is None:
            return self._exact_given(theta, group, self.n[group], slack, least_order)
        mean, covariance = self.record.moments(theta)
        _, n, log_weight, base = self._summed(mean, covariance, group)
        row, number = unknown_count.anchors(n, np.nan_to_num(base, nan=-np.inf) + log_weight)
        value, rest = self._exact_given(theta[row], group[row], number, slack[row], least_order)
        rough = self._collapsed(number, mean[row], covariance[row], group[row])
        gap = np.clip(np.nan_to_num(value - rough, nan=0.0), -MOST_GAP, MOST_GAP)
        base = base + unknown_count.between(row, number, gap, n)
        total = unknown_count.log_sum(base, log_weight)
        with np.errstate(invalid="ignore"):
            weight = np.nan_to_num(np.exp(base + log_weight - total[:, None]))
        error = unknown_count.between(row, number, np.minimum(rest, 1.0), n)
        return total, np.asarray((weight * error).sum(axis=1))

    def bound(self, theta: FloatArray, group: IntArray) -> FloatArray:
        """What the exact log p(y | theta) does not exceed, at a small part of its cost; infinite
        where nothing cheap is known.
        """
        value = np.full(len(theta), np.inf)
        n = self.n[group]
        if self.count is not None or self.dimension > 1:
            return value
        todo = np.flatnonzero((n > 0) & (n <= MOST_RECORDS))
        for start in range(0, todo.size, PIECE):
            rows = todo[start : start + PIECE]
            with np.errstate(all="ignore"):
                law, sums = self._sums(theta[rows], group[rows], n[rows], ORDERS[-1])
                found = one_statistic.log_bound(law, sums)
            value[rows] = np.where(np.isnan(found), np.inf, found)
        return value

    def _exact_given(
        self, theta: FloatArray, group: IntArray, n: FloatArray, slack: FloatArray, least_order: int
    ) -> tuple[FloatArray, FloatArray]:
        value, error = np.zeros(len(theta)), np.zeros(len(theta))
        huge = np.flatnonzero(n > MOST_RECORDS)
        if huge.size:
            value[huge], error[huge] = self._of_very_many(theta[huge], group[huge], n[huge])
        tolerance = (one_statistic if self.dimension == 1 else two_statistics).TOLERANCE * slack
        least = np.where(
            n <= FEW, max(least_order, FEW_ORDER if self.dimension == 1 else ORDERS[2]), least_order
        )
        todo = np.flatnonzero((n > 0) & (n <= MOST_RECORDS))
        for order in ORDERS if self.dimension == 1 else ORDERS[:3]:
            now, later = todo[least[todo] <= order], todo[least[todo] > order]
            for start in range(0, now.size, PIECE):
                rows = now[start : start + PIECE]
                # a theta so far out that nothing is representable has no likelihood
                with np.errstate(all="ignore"):
                    found, rest = self._exact(
                        theta[rows], group[rows], n[rows], order, tolerance[rows]
                    )
                value[rows], error[rows] = (
                    np.where(np.isnan(found), -np.inf, found),
                    np.where(np.isnan(found), 0.0, rest),
                )
            todo = (
                later
                if self.record.steps is not None
                else np.concatenate([now[error[now] > tolerance[now]], later])
            )
            if todo.size == 0:
                break
        return value, error

    def _of_very_many(
        self, theta: FloatArray, group: IntArray, n: FloatArray
    ) -> tuple[FloatArray, FloatArray]:
        """The normal approximation, which is no approximation where many records fall anywhere but
        in one place.
        """
        mean, covariance = self.record.moments(theta)
        t = _statistics_over(self.family, self.record.units(theta[:1])[1])
        spread = np.einsum("bdd->bd", covariance) / np.maximum(np.abs(t).max(axis=0), 1e-300) ** 2
        with np.errstate(all="ignore"):
            error = np.minimum(1 / np.sqrt(n[:, None] * spread).min(axis=1), 1.0)
        return self._collapsed(n, mean, covariance, group), np.nan_to_num(error, nan=1.0)

    def _exact(
        self, theta: FloatArray, group: IntArray, n: FloatArray, order: int, tolerance: FloatArray
    ) -> tuple[FloatArray, FloatArray]:
        law, sums = self._sums(theta, group, n, order)
        if self.dimension == 1:
            return one_statistic.log_likelihood(law, sums)
        return two_statistics.log_likelihood(law, sums, tolerance)

    def _sums(
        self, theta: FloatArray, group: IntArray, n: FloatArray, order: int
    ) -> tuple[Law, Sums]:
        """One record's law, and what is public of the sums of n such."""
        unit = np.array(self.record.steps or (1.0,) * self.dimension)
        lattice, discrete = self.record.steps is not None, self.kind.discrete
        y, scale = self.y[group] / unit, self.scale[group] / unit
        sums = Sums(n, y, scale, self.shape, lattice, discrete, self.block)
        return self.record.law(theta, order), sums


def gather(releases: Sequence[Release], n_prior: Prior | None = None) -> Observations:
    """One group for each release; they must be alike in their `batch_key`. Where n is not public,
    its prior is n_prior, or flat.
    """
    first = releases[0]
    d = first.family.dimension
    n = np.array([_about(release) for release in releases], dtype=float)
    y = np.array([release.statistic for release in releases])
    scale = np.array([release.noise.scale for release in releases])
    steps = _coarse_steps(first, d, float(n.max()))
    if first.noise.discrete and steps is not None:
        spacing = first.noise.steps
        off = np.abs(y / spacing - np.round(y / spacing)) > 1e-6
        if off.any():
            raise UnsupportedCombination(
                f"the statistic {y[off][0]:g} is no multiple of the noise's step {spacing[0]:g}: "
                "no release has such a value; check it."
            )
    family, bounds = first.family.modelled(first.bounds)
    record = BoundedRecord(
        family,
        bounds,
        first.coordinates == "standardised",
        None if steps is None else tuple(steps.tolist()),
    )
    kind, block, count = type(first.noise), _block(first), _count(releases, n_prior)
    return Observations(record, kind, block, n, y, scale, first.n is not None, count, n_prior)


def _about(release: Release) -> float:
    if release.n is not None:
        return float(release.n)
    return max(
        0.0,
        float(np.round(sum(release.statistic) if release.count is None else release.count.value)),
    )


def _count(releases: Sequence[Release], prior: Prior | None) -> Count | None:
    counts = [release.count for release in releases if release.count is not None]
    if not counts:
        return None
    value, scale = (
        np.array(column)
        for column in zip(*((c.value, float(c.noise.scales[0])) for c in counts), strict=True)
    )
    return Count(value, scale, counts[0].noise.on_numbers, prior)


def _range_of_statistics(release: Release) -> FloatArray:
    """The released statistics of records over the whole range, (points, d)."""
    standardised = release.coordinates == "standardised"
    family, bounds = release.family.modelled(release.bounds)
    return _statistics_over(family, Bounds(-1, 1, outside="clamp") if standardised else bounds)


def _statistics_over(family: Family, bounds: Bounds | None) -> FloatArray:
    """The statistics of records over the bounds, (points, d)."""
    low, high = family.support if bounds is None else (bounds.lower, bounds.upper)
    with np.errstate(all="ignore"):
        t = family.statistics(np.linspace(low, high, 257))
    return np.where(np.isfinite(t), t, 0.0)


def batch_key(release: Release) -> tuple[object, ...]:
    """What two releases must share to be inferred from in one batch."""
    noise = release.noise
    step = tuple(noise.steps) if noise.discrete else ()
    count = None if release.count is None else release.count.noise.kind
    return (
        release.family,
        release.bounds,
        release.coordinates,
        noise.kind,
        step,
        release.n is None,
        count,
    )


def _coarse_steps(release: Release, d: int, n: float) -> FloatArray | None:
    """The lattice of the sums where it must not be taken as continuous.

    Rounding moves the mean of a square near 0 by about (step/range)^1.5, against a spread of the
    mean of n records of about 0.3/sqrt(n). With one statistic nothing is lost by caring earlier.
    """
    noise = release.noise
    if release.family.integer:
        return np.ones(d)
    if not noise.discrete or release.bounds is None:
        return None
    spans = np.ptp(_range_of_statistics(release), axis=0)
    cells = (
        LATTICE_CELLS
        if d == 1
        else np.clip((250 * np.sqrt(n)) ** (2 / 3), FEWEST_CELLS, LATTICE_CELLS)
    )
    return noise.steps if np.any(noise.steps * cells > spans) else None


def _block(release: Release) -> int:
    """By how much the noise's lattice is coarser than that of sums of whole numbers, which then are
    rounded to it.
    """
    noise = release.noise
    if not release.family.integer or not noise.discrete:
        return 1
    steps = noise.steps
    finer = np.round(1 / steps)
    if np.all(np.abs(finer * steps - 1) < 1e-9) and np.all(finer >= 1):
        return 1
    if (
        np.any(steps != np.round(steps))
        or np.ptp(steps) > 0
        or (steps.size > 1 and not release.family.bounded)
    ):
        raise UnsupportedCombination(
            f"the {release.family.kind} family counts in whole numbers, and noise in steps of "
            f"{steps[0]:g} fits neither them nor "
            "one multiple of them for all; check the step."
        )
    if steps[0] > MOST_BLOCK:
        raise UnsupportedCombination(
            f"the noise's step {steps[0]:g} is too coarse for 64-bit numbers; check the step."
        )
    return int(steps[0])
