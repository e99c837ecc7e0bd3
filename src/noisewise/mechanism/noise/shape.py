"""What solvers ask of a noise: its density up to its scale, added to normals, against harmonics.

A shape is shared by noise on numbers and on a lattice. Arrays broadcast, and `scale` is in the
units of `z`. A new noise must supply `log_kernel`, `log_constant` and `reach`; what it leaves to
the defaults is integrated numerically, and what has no default is for methods that then do not
serve it.
"""

from abc import ABC, abstractmethod
from typing import ClassVar

import numpy as np

from noisewise.errors import UnsupportedCombination
from noisewise.mechanism.noise.transform import Integral, Seen, Sum, Transform
from noisewise.model.arrays import FloatArray

_UNIT, _UNIT_WEIGHT = np.polynomial.legendre.leggauss(16)
"""Of each panel of a normal that is integrated against noise."""
_LADDER = np.concatenate([[0.0], 2.0 ** np.arange(-3, 12)])
"""Ends of panels on either side of the noise's middle, in its scales."""
_NORMAL_LADDER = np.array([0.0, 1.0, 2.0, 3.0, 4.5, 6.5, 9.0])
"""The same for the normal, in sds; beyond 9 of them lies 10^-19 of it."""
_FALL = 40.0
"""Noise that is e^-40 of its height adds nothing to a sum over a lattice."""


class Shape(ABC):
    """The law of the noise z on one statistic, symmetric about 0 and falling on either side."""

    variance: ClassVar[float]
    """Of noise of scale 1."""
    most_statistics: ClassVar[float] = 1
    """How many noisy statistics `log_with_normals` serves."""
    closed_form: ClassVar[bool] = False
    """Whether it does so in closed form, so that nothing cheaper is needed to search with."""
    mixes: ClassVar[bool] = False
    """Whether it is a normal whose variance is random, which is what gibbs needs."""
    counts: ClassVar[bool] = False
    """Whether it supplies what the exact method for counts needs."""

    @abstractmethod
    def log_kernel(self, z: FloatArray, scale: FloatArray) -> FloatArray:
        """The log density at z less that at 0."""

    @abstractmethod
    def log_constant(self, scale: FloatArray) -> FloatArray:
        """The log density at 0."""

    @abstractmethod
    def reach(self, fall: FloatArray, scale: FloatArray) -> FloatArray:
        """The |z| at which the density is e^-fall of that at 0."""

    def slope(self, z: FloatArray, scale: FloatArray) -> FloatArray:
        """The derivative of `log_kernel` in z."""
        step = 1e-5 * scale
        rise = self.log_kernel(z + step, scale) - self.log_kernel(z - step, scale)
        return np.asarray(rise / (2 * step))

    def log_constant_on_lattice(self, scale: FloatArray) -> FloatArray:
        """The log probability of 0 of noise on the whole numbers."""
        out = np.empty(scale.shape)
        for place, one in np.ndenumerate(scale):
            most = int(self.reach(np.array(_FALL), np.array(one))) + 1
            kernel = np.exp(self.log_kernel(np.arange(1.0, most + 1), np.full(most, one)))
            out[place] = -np.log1p(2 * kernel.sum())
        return out

    # Under the normal approximation of sums.

    def log_with_normal(self, z: FloatArray, variance: FloatArray, scale: FloatArray) -> FloatArray:
        """log of the density at z of N(0, variance) + noise."""
        z, variance, scale = np.broadcast_arrays(z, variance, scale)
        sd = np.sqrt(np.maximum(variance, 1e-24 * scale**2))
        ladders = (
            (z, scale, _LADDER),
            (np.zeros(z.shape), sd, _NORMAL_LADDER),
        )
        ends = np.concatenate(
            [
                middle[..., None] + side * unit[..., None] * ladder
                for middle, unit, ladder in ladders
                for side in (-1, 1)
            ],
            axis=-1,
        )
        ends = np.sort(np.clip(ends, (-9 * sd)[..., None], (9 * sd)[..., None]), axis=-1)
        half = np.diff(ends)[..., None] / 2
        e = ends[..., :-1, None] + half * (1 + _UNIT)
        wide = (..., None, None)
        log = self.log_kernel(z[wide] - e, scale[wide]) - 0.5 * (e / sd[wide]) ** 2
        top = log.max(axis=(-2, -1), keepdims=True)
        total = (np.exp(log - top) * half * _UNIT_WEIGHT).sum(axis=(-2, -1))
        constant = self.log_constant(scale) - np.log(sd * np.sqrt(2 * np.pi))
        return np.asarray(np.log(total) + top[..., 0, 0] + constant)

    def log_with_normals(
        self, z: FloatArray, covariance: FloatArray, scale: FloatArray
    ) -> FloatArray:
        """The same of d statistics: z and scale (batch, d), covariance (batch, d, d)."""
        if z.shape[1] > self.most_statistics:
            raise UnsupportedCombination(
                f"collapsed serves at most {self.most_statistics:g} statistics with this noise, "
                f"here are {z.shape[1]}; use method='gibbs'."
            )
        return self.log_with_normal(z[:, 0], covariance[:, 0, 0], scale[:, 0])

    # The exact likelihood of sums, tilted by e^(slope s).

    def steepest(self, scale: FloatArray) -> FloatArray:
        """The steepest slope under which the tilted noise e^(slope z) h(z) is still a law."""
        return np.zeros(scale.shape)

    def curvature(self, scale: FloatArray) -> FloatArray:
        """How far tilted noise moves for each unit of slope: of normal noise its variance."""
        return np.zeros(scale.shape)

    def in_window(self, scale: FloatArray, on_lattice: bool) -> FloatArray:
        """The variance of noise that is better added to the sum than held against its window."""
        return np.zeros(scale.shape)

    def sees_lattice(self, scale: FloatArray, block: int) -> FloatArray:
        """Whether noise of this scale can tell a sum of whole numbers from one of numbers."""
        return np.ones(scale.shape, dtype=bool)

    def smoothed(
        self, y: FloatArray, scale: FloatArray, block: int
    ) -> tuple[FloatArray, FloatArray]:
        """y and scale with the rounding of sums to multiples of `block` counted as noise; asked
        only where noise does not see the lattice.
        """
        return y, scale

    def transform(self, seen: Seen) -> Transform:
        """The tilted noise against the harmonics of the window of the sum."""
        kind = Sum if seen.on_lattice else Integral
        return kind.of(seen, self.log_kernel)

    # Samplers.

    def mixing_variance(
        self, z: FloatArray, scale: FloatArray, normal: FloatArray, uniform: FloatArray
    ) -> FloatArray:
        """A draw of the normal's variance given the noise z, made of a standard normal number and a
        uniform one.
        """
        raise NotImplementedError

    # Counts with weights Gamma(a + s)/s!.

    def kernel_change(self, miss: FloatArray, shift: FloatArray, scale: FloatArray) -> FloatArray:
        """log_kernel(miss - shift) less log_kernel(miss), with full relative precision."""
        raise NotImplementedError

    def likeliest_count(
        self, y: FloatArray, scale: FloatArray, a: FloatArray, slope: float
    ) -> FloatArray:
        """About where Gamma(a + s)/s! e^(slope s) h(y - s) is largest away from 0."""
        raise NotImplementedError
