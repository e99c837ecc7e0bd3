"""What releases say about theta: the likelihood of their noisy statistics, collapsed or exact, for many groups at once."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from noisewise.artifact import NoisyCount, Release
from noisewise.errors import UnsupportedCombination
from noisewise.inference import collapsed, fourier, plane
from noisewise.inference.law import LATTICE_CELLS, on_lattice, record_law
from noisewise.inference.sizes import Sizes, sizes_of
from noisewise.mechanism.noise import DiscreteGaussian, Gaussian, Laplace, Noise
from noisewise.model.arrays import FloatArray, IntArray
from noisewise.model.bounds import Bounds
from noisewise.model.family import Family
from noisewise.model.moments import released_moments
from noisewise.model.priors import Prior

ORDERS = (32, 64, 128, 256, 512)
"""Quadrature nodes on either side of the peak: more where the likelihood needs more harmonics."""
FEW, FEW_ORDER = 3, 256
"""So few records hardly smooth the noise's kink, and their integral needs more nodes."""
PIECE = 1 << 13
"""Thetas whose laws are held at once."""
MOST_SIZES = 1 << 18
"""Pairs of theta and n that are held at once."""
MATTERS = 14.0
"""The exact likelihood is not had at an n that is e^-14 as likely as the likeliest."""
MOST_GAP = 30.0
"""Where the exact and the normal likelihood differ by more, in the log, neither matters."""


@dataclass(frozen=True, slots=True)
class Evidence:
    """Releases alike in everything but n, statistic and noise scale: one for each group."""

    family: Family
    bounds: Bounds | None
    standardised: bool
    gaussian: bool
    discrete: bool
    steps: FloatArray | None  # (d,): the spacing of a statistic that must be taken as a lattice; None if continuous
    n: FloatArray  # (groups,); where it is not public, about what it is
    y: FloatArray  # (groups, d)
    scale: FloatArray  # (groups, d)
    public: bool = True
    """Whether n is public."""
    sizes: Sizes | None = None
    """Where it is not, what is summed over; a categorical's counts tell."""
    n_prior: Prior | None = None
    counts: tuple[NoisyCount, ...] = ()
    """Where n is not public, the noisy count of each group; a categorical has none."""

    @property
    def dimension(self) -> int:
        """d, the number of statistics."""
        return int(self.y.shape[1])

    def take(self, rows: "slice | IntArray") -> "Evidence":
        """Some of the groups."""
        shared = (self.family, self.bounds, self.standardised, self.gaussian, self.discrete, self.steps)
        sizes = None if self.sizes is None else self.sizes.take(rows)
        counts = tuple(self.counts[g] for g in np.arange(self.n.size)[rows]) if self.counts else ()
        return Evidence(*shared, self.n[rows], self.y[rows], self.scale[rows], self.public, sizes, self.n_prior, counts)

    def noise(self, group: int = 0) -> Noise:
        """The noise of one group, continuous: on whole numbers it has the same shape as discrete noise."""
        return (Gaussian if self.gaussian else Laplace)(tuple(self.scale[group]))

    def units(self, theta: FloatArray) -> tuple[FloatArray, Bounds | None]:
        """theta and bounds in the coordinates of the release."""
        if not self.standardised:
            return theta, self.bounds
        assert self.bounds is not None
        return self.family.standardise(theta, self.bounds), Bounds(-1, 1, outside=self.bounds.outside)

    def moments(self, theta: FloatArray, method: str = "auto") -> tuple[FloatArray, FloatArray]:
        """Mean and covariance of one record's t^."""
        with np.errstate(all="ignore"):  # thetas far out, where nothing is representable: NaN counts as impossible
            return released_moments(self.family, *self.units(theta), method)

    def collapsed(self, theta: FloatArray, group: IntArray) -> FloatArray:
        """log p(y | theta) under the normal approximation; theta (batch, p), group (batch,)."""
        if self.n.size > 1 and theta.shape[1] == 1:  # the moments at a theta serve every group
            own, first = np.unique(theta[:, 0], return_inverse=True)
            mean, covariance = (moment[first] for moment in self.moments(own[:, None]))
        else:
            mean, covariance = self.moments(theta)
        if self.sizes is not None:
            return self.sizes.sum(self._collapsed_at(self.sizes.node[group], mean, covariance, group), group)
        n = self.n[group]
        return np.where(n > 0, self._collapsed(n, mean, covariance, group), 0.0)

    def _collapsed(self, n: FloatArray, mean: FloatArray, covariance: FloatArray, group: IntArray) -> FloatArray:
        return collapsed.log_likelihood(
            n[:, None] * mean, n[:, None, None] * covariance, self.y[group], self.scale[group], self.gaussian
        )

    def _collapsed_at(self, n: FloatArray, mean: FloatArray, covariance: FloatArray, group: IntArray) -> FloatArray:
        """At every n of (batch, sizes)."""
        out = np.empty(n.shape)
        size = max(1, MOST_SIZES // n.shape[1])
        for start in range(0, len(n), size):
            part = slice(start, start + size)
            rows = np.repeat(np.arange(len(n))[part], n.shape[1])
            out[part] = self._collapsed(n[part].ravel(), mean[rows], covariance[rows], group[rows]).reshape(-1, n.shape[1])
        return out

    def pilot(self, theta: FloatArray, group: IntArray) -> FloatArray:
        """As collapsed, with the statistics taken as independent: cheap, and with the right tails."""
        if self.gaussian or self.dimension == 1:
            return self.collapsed(theta, group)
        mean, covariance = self.moments(theta, "rough")
        variance = np.maximum(np.einsum("bdd->bd", covariance), 0.0)
        n = (self.n[group][:, None] if self.sizes is None else self.sizes.node[group])[:, :, None]
        z, scale = self.y[group][:, None, :] - n * mean[:, None, :], self.scale[group][:, None, :]
        with np.errstate(all="ignore"):
            value = collapsed.normal_laplace(z, n * variance[:, None, :], scale).sum(axis=2)
        if self.sizes is not None:
            return self.sizes.sum(value, group)
        return np.where(self.n[group] > 0, value[:, 0], 0.0)

    def exact(
        self, theta: FloatArray, group: IntArray, slack: FloatArray | None = None, least_order: int = 0
    ) -> tuple[FloatArray, FloatArray]:
        """log p(y | theta) without approximation, and its relative numerical error; `slack` times the usual one will do."""
        slack = np.ones(len(theta)) if slack is None else slack
        if self.sizes is None:
            return self._exact_given(theta, group, self.n[group], slack, least_order)
        sizes, whole = self.sizes, self.sizes.whole[group]
        mean, covariance = self.moments(theta)
        at_nodes, base = (self._collapsed_at(n, mean, covariance, group) for n in (sizes.node[group], whole))
        likely = np.nan_to_num(base + sizes.log_weight_of_whole[group], nan=-np.inf)
        rows, anchor = np.nonzero((whole > 0) & (likely > likely.max(axis=1, keepdims=True) - MATTERS))
        value, rest = self._exact_given(theta[rows], group[rows], whole[rows, anchor], slack[rows], least_order)
        gap, error = np.zeros(whole.shape), np.zeros(whole.shape)
        gap[rows, anchor] = np.clip(np.nan_to_num(value - base[rows, anchor], nan=0.0), -MOST_GAP, MOST_GAP)
        error[rows, anchor] = np.minimum(rest, 1.0)
        at_nodes = at_nodes + sizes.between(gap, group)
        total = sizes.sum(at_nodes, group)
        with np.errstate(invalid="ignore"):
            weight = np.nan_to_num(np.exp(at_nodes + sizes.log_weight[group] - total[:, None]))
        return total, np.asarray((weight * sizes.between(error, group)).sum(axis=1))

    def _exact_given(
        self, theta: FloatArray, group: IntArray, n: FloatArray, slack: FloatArray, least_order: int
    ) -> tuple[FloatArray, FloatArray]:
        value, error = np.zeros(len(theta)), np.zeros(len(theta))
        tolerance = (fourier if self.dimension == 1 else plane).TOLERANCE * slack
        least = np.where(n <= FEW, max(least_order, FEW_ORDER if self.dimension == 1 else ORDERS[2]), least_order)
        todo = np.flatnonzero(n > 0)
        for order in ORDERS if self.dimension == 1 else ORDERS[:3]:
            now, later = todo[least[todo] <= order], todo[least[todo] > order]
            for start in range(0, now.size, PIECE):
                rows = now[start : start + PIECE]
                with np.errstate(all="ignore"):  # a theta so far out that nothing is representable has no likelihood
                    found, rest = self._exact(theta[rows], group[rows], n[rows], order, tolerance[rows])
                value[rows], error[rows] = np.where(np.isnan(found), -np.inf, found), np.where(np.isnan(found), 0.0, rest)
            todo = later if self.steps is not None else np.concatenate([now[error[now] > tolerance[now]], later])
            if todo.size == 0:
                break
        return value, error

    def _exact(
        self, theta: FloatArray, group: IntArray, n: FloatArray, order: int, tolerance: FloatArray
    ) -> tuple[FloatArray, FloatArray]:
        own, bounds = self.units(theta)
        unit = np.ones(self.dimension) if self.steps is None else self.steps
        law = record_law(self.family, own, bounds, order if self.steps is None or self.family.integer else ORDERS[-1])
        if self.steps is not None:
            law = on_lattice(law, unit)
        sums = fourier.Sums(n, self.y[group] / unit, self.scale[group] / unit, self.gaussian, self.steps is not None, self.discrete)
        return fourier.log_likelihood(law, sums) if self.dimension == 1 else plane.log_likelihood(law, sums, tolerance)


def gather(releases: Sequence[Release], n_prior: Prior | None = None) -> Evidence:
    """One group for each release; they must be alike in `likeness`. Where n is not public, its prior is n_prior, or flat."""
    first = releases[0]
    d = first.family.dimension
    n = np.array([_about(release) for release in releases], dtype=float)
    y = np.array([release.statistic for release in releases])
    scale = np.array([release.noise.scale for release in releases])
    gaussian = isinstance(first.noise, (Gaussian, DiscreteGaussian))
    steps = _coarse_steps(first, d)
    if first.noise.discrete and steps is not None:
        spacing = first.noise.steps
        off = np.abs(y / spacing - np.round(y / spacing)) > 1e-6
        if off.any():
            raise UnsupportedCombination(
                f"the statistic {y[off][0]:g} is no multiple of the noise's step {spacing[0]:g}: no release is so; check it."
            )
    standardised = first.coordinates == "standardised"
    sizes = _sizes(releases, scale, n_prior)
    shared = (first.family, first.bounds, standardised, gaussian, first.noise.discrete, steps)
    counts = tuple(release.count for release in releases if release.count is not None)
    return Evidence(*shared, n, y, scale, first.n is not None, sizes, n_prior, counts)


def _about(release: Release) -> float:
    if release.n is not None:
        return float(release.n)
    return max(0.0, float(np.round(sum(release.statistic) if release.count is None else release.count.value)))


def _sizes(releases: Sequence[Release], scale: FloatArray, prior: Prior | None) -> Sizes | None:
    first = releases[0]
    counts = [release.count for release in releases if release.count is not None]
    if not counts:
        return None
    largest = np.abs(_range_of_statistics(first)).max(axis=0)
    count_scale = np.array([count.noise.scales[0] for count in counts])
    finer = (largest * count_scale[:, None] / scale).max(axis=1)
    return sizes_of([count.value for count in counts], [count.noise for count in counts], finer, prior)


def _range_of_statistics(release: Release) -> FloatArray:
    """The released statistics of records over the whole range, (points, d)."""
    if release.coordinates == "standardised":
        return np.array([[-1.0, 0.0], [1.0, 1.0]])
    low, high = release.family.support if release.bounds is None else (release.bounds.lower, release.bounds.upper)
    with np.errstate(all="ignore"):
        columns = [np.asarray(t, dtype=float) for t in release.family.statistic(np.linspace(low, high, 257), np)]
    return np.stack([np.where(np.isfinite(t), t, 0.0) for t in columns], axis=1)


def likeness(release: Release) -> tuple[object, ...]:
    """What two releases must share to be inferred from in one batch."""
    noise = release.noise
    step = tuple(noise.steps) if noise.discrete else ()
    return release.family, release.bounds, release.coordinates, noise.kind, step, release.n is None


def _coarse_steps(release: Release, d: int) -> FloatArray | None:
    """The lattice of the sums where it must not be taken as continuous."""
    noise = release.noise
    if release.family.integer:
        return np.maximum(noise.steps, 1.0) if noise.discrete else np.ones(d)
    if not noise.discrete or release.bounds is None:
        return None
    spans = np.ptp(_range_of_statistics(release), axis=0)
    return noise.steps if np.any(noise.steps * LATTICE_CELLS > spans) else None
