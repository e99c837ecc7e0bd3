"""What releases say about theta: the likelihood of their noisy statistics, collapsed or exact, for many groups at once."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from noisewise.artifact import Release
from noisewise.errors import UnsupportedCombination
from noisewise.inference import collapsed, fourier, plane
from noisewise.inference.law import LATTICE_CELLS, on_lattice, record_law
from noisewise.mechanism.noise import DiscreteGaussian, Gaussian, Laplace, Noise
from noisewise.model.arrays import FloatArray, IntArray
from noisewise.model.bounds import Bounds
from noisewise.model.family import Family
from noisewise.model.moments import released_moments

ORDERS = (32, 64, 128, 256, 512)
"""Quadrature nodes on either side of the peak: more where the likelihood needs more harmonics."""
FEW, FEW_ORDER = 3, 256
"""So few records hardly smooth the noise's kink, and their integral needs more nodes."""
PIECE = 1 << 13
"""Thetas whose laws are held at once."""


@dataclass(frozen=True, slots=True)
class Evidence:
    """Releases alike in everything but n, statistic and noise scale: one for each group."""

    family: Family
    bounds: Bounds | None
    standardised: bool
    gaussian: bool
    discrete: bool
    steps: FloatArray | None  # (d,): the spacing of a statistic that must be taken as a lattice; None if continuous
    n: FloatArray  # (groups,)
    y: FloatArray  # (groups, d)
    scale: FloatArray  # (groups, d)

    @property
    def dimension(self) -> int:
        """d, the number of statistics."""
        return int(self.y.shape[1])

    def take(self, rows: "slice | IntArray") -> "Evidence":
        """Some of the groups."""
        shared = (self.family, self.bounds, self.standardised, self.gaussian, self.discrete, self.steps)
        return Evidence(*shared, self.n[rows], self.y[rows], self.scale[rows])

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
        n = self.n[group]
        value = collapsed.log_likelihood(
            n[:, None] * mean, n[:, None, None] * covariance, self.y[group], self.scale[group], self.gaussian
        )
        return np.where(n > 0, value, 0.0)

    def pilot(self, theta: FloatArray, group: IntArray) -> FloatArray:
        """As collapsed, with the statistics taken as independent: cheap, and with the right tails."""
        if self.gaussian or self.dimension == 1:
            return self.collapsed(theta, group)
        mean, covariance = self.moments(theta, "rough")
        n = self.n[group][:, None]
        variance = np.maximum(np.einsum("bdd->bd", covariance), 0.0)
        with np.errstate(all="ignore"):
            value = collapsed.normal_laplace(self.y[group] - n * mean, n * variance, self.scale[group]).sum(axis=1)
        return np.where(n[:, 0] > 0, value, 0.0)

    def exact(
        self, theta: FloatArray, group: IntArray, slack: FloatArray | None = None, least_order: int = 0
    ) -> tuple[FloatArray, FloatArray]:
        """log p(y | theta) without approximation, and its relative numerical error; `slack` times the usual one will do."""
        value, error = np.zeros(len(theta)), np.zeros(len(theta))
        tolerance = (fourier if self.dimension == 1 else plane).TOLERANCE * (np.ones(len(theta)) if slack is None else slack)
        todo = np.flatnonzero(self.n[group] > 0)
        if np.any(self.n[group[todo]] <= FEW):
            least_order = max(least_order, FEW_ORDER if self.dimension == 1 else ORDERS[2])
        for order in ORDERS if self.dimension == 1 else ORDERS[:3]:
            if order < least_order:
                continue
            for start in range(0, todo.size, PIECE):
                rows = todo[start : start + PIECE]
                with np.errstate(all="ignore"):  # a theta so far out that nothing is representable has no likelihood
                    found, rest = self._exact(theta[rows], group[rows], order, tolerance[rows])
                value[rows], error[rows] = np.where(np.isnan(found), -np.inf, found), np.where(np.isnan(found), 0.0, rest)
            todo = todo[error[todo] > tolerance[todo]]
            if todo.size == 0 or self.steps is not None:
                break
        return value, error

    def _exact(self, theta: FloatArray, group: IntArray, order: int, tolerance: FloatArray) -> tuple[FloatArray, FloatArray]:
        own, bounds = self.units(theta)
        unit = np.ones(self.dimension) if self.steps is None else self.steps
        law = record_law(self.family, own, bounds, order if self.steps is None or self.family.integer else ORDERS[-1])
        if self.steps is not None:
            law = on_lattice(law, unit)
        sums = fourier.Sums(
            self.n[group], self.y[group] / unit, self.scale[group] / unit, self.gaussian, self.steps is not None, self.discrete
        )
        return fourier.log_likelihood(law, sums) if self.dimension == 1 else plane.log_likelihood(law, sums, tolerance)


def gather(releases: Sequence[Release]) -> Evidence:
    """One group for each release; they must be alike in `likeness`."""
    first = releases[0]
    d = first.family.dimension
    n = np.array([release.n for release in releases], dtype=float)
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
    return Evidence(first.family, first.bounds, standardised, gaussian, first.noise.discrete, steps, n, y, scale)


def likeness(release: Release) -> tuple[object, ...]:
    """What two releases must share to be inferred from in one batch."""
    noise = release.noise
    step = tuple(noise.steps) if noise.discrete else ()
    return release.family, release.bounds, release.coordinates, noise.kind, step


def _coarse_steps(release: Release, d: int) -> FloatArray | None:
    """The lattice of the sums where it must not be taken as continuous."""
    noise = release.noise
    if release.family.integer:
        return np.maximum(noise.steps, 1.0) if noise.discrete else np.ones(d)
    if not noise.discrete or release.bounds is None:
        return None
    if release.coordinates == "standardised":
        spans = np.array([2.0, 1.0])
    else:
        x = np.linspace(release.bounds.lower, release.bounds.upper, 257)
        spans = np.array([np.ptp(np.asarray(column, dtype=float)) for column in release.family.statistic(x, np)])
    return noise.steps if np.any(noise.steps * LATTICE_CELLS > spans) else None
