"""Normal noise: that of concentrated differential privacy, on numbers and on a lattice."""

from dataclasses import dataclass
from typing import ClassVar, final

import numpy as np
from scipy import special

from noisewise.mechanism.noise.base import Noise, Numbers, settle
from noisewise.mechanism.noise.shape import Shape
from noisewise.mechanism.noise.transform import Seen, Transform, within_blocks
from noisewise.model.arrays import ComplexArray, FloatArray, turn

NEAR_LATTICE = 3.0
"""Noise of fewer steps than this sees the single whole numbers; beyond, e^-177 of it does."""
NEAR_BLOCKS = 64.0
"""The same where sums are rounded to blocks: how a sum is rounded depends on the sum, which noise
of fewer blocks than this would notice where sums spread over few.
"""
_REACH = 9.0
"""Sds of noise near a lattice that are summed: beyond lies 10^-19 of it."""
_BISECTIONS = 50
"""Of the likeliest count: a double has no more digits."""


@final
class NormalShape(Shape):
    """exp(-(z/scale)^2 / 2) / (scale sqrt(2 pi)).

    Its transform falls by itself, so that it joins the sum, and the window holds both; unless it is
    so narrow that it sees the single points of a lattice.
    """

    variance: ClassVar[float] = 1.0
    most_statistics: ClassVar[float] = np.inf
    closed_form: ClassVar[bool] = True
    mixes: ClassVar[bool] = True
    counts: ClassVar[bool] = True

    def log_kernel(self, z: FloatArray, scale: FloatArray) -> FloatArray:
        return np.asarray(-0.5 * (z / scale) ** 2)

    def slope(self, z: FloatArray, scale: FloatArray) -> FloatArray:
        return -z / scale**2

    def log_constant(self, scale: FloatArray) -> FloatArray:
        return np.asarray(-np.log(scale * np.sqrt(2 * np.pi)))

    def reach(self, fall: FloatArray, scale: FloatArray) -> FloatArray:
        return np.sqrt(2 * fall) * scale

    def log_constant_on_lattice(self, scale: FloatArray) -> FloatArray:
        return -log_theta(scale)

    def log_with_normal(self, z: FloatArray, variance: FloatArray, scale: FloatArray) -> FloatArray:
        total = variance + scale**2
        return np.asarray(-0.5 * (z**2 / total + np.log(2 * np.pi * total)))

    def log_with_normals(
        self, z: FloatArray, covariance: FloatArray, scale: FloatArray
    ) -> FloatArray:
        # By elimination: NaN where it is not a covariance, which NumPy's Cholesky would refuse for
        # all.
        d = z.shape[1]
        z, covariance = z.copy(), covariance + np.eye(d) * scale[:, :, None] ** 2
        total = np.full(len(z), -0.5 * d * np.log(2 * np.pi))
        for j in range(d):  # the j-th given those before it, then taken out of those after it
            variance = np.where(covariance[:, j, j] > 0, covariance[:, j, j], np.nan)
            total -= 0.5 * (z[:, j] ** 2 / variance + np.log(variance))
            share = covariance[:, j + 1 :, j] / variance[:, None]
            z[:, j + 1 :] -= share * z[:, j, None]
            covariance[:, j + 1 :, j + 1 :] -= share[:, :, None] * covariance[:, None, j, j + 1 :]
        return np.asarray(total)

    def steepest(self, scale: FloatArray) -> FloatArray:
        return np.full(scale.shape, np.inf)

    def curvature(self, scale: FloatArray) -> FloatArray:
        return scale**2

    def in_window(self, scale: FloatArray, on_lattice: bool) -> FloatArray:
        return np.zeros(scale.shape) if on_lattice else scale**2

    def sees_lattice(self, scale: FloatArray, block: int) -> FloatArray:
        return np.asarray(scale < (NEAR_LATTICE if block == 1 else NEAR_BLOCKS) * block)

    def smoothed(
        self, y: FloatArray, scale: FloatArray, block: int
    ) -> tuple[FloatArray, FloatArray]:
        # Wide noise sees nothing of rounding but what it does to mean and variance.
        if block == 1:
            return y, scale
        return y - (1 - block % 2) / 2, np.sqrt(scale**2 + (block**2 - 1) / 12)

    def transform(self, seen: Seen) -> Transform:
        variance = seen.scale**2
        moved = 0.5 * variance * seen.slope**2
        if not seen.on_lattice:
            factor = moved + np.log(seen.scale * np.sqrt(2 * np.pi))
            z = seen.distance - variance * seen.slope
            return NormalTransform(seen.below + seen.above, z, variance, factor)
        first, last, width, offset, z = seen.whole
        sd = seen.scale / seen.block
        return NormalSum(width, first, last, offset, z, sd, seen.slope, moved, seen.block)

    def mixing_variance(
        self, z: FloatArray, scale: FloatArray, normal: FloatArray, uniform: FloatArray
    ) -> FloatArray:
        return np.asarray(np.broadcast_to(scale**2, z.shape))

    def kernel_change(self, miss: FloatArray, shift: FloatArray, scale: FloatArray) -> FloatArray:
        return np.asarray((shift / scale) * ((2 * miss - shift) / scale) / 2)

    def likeliest_count(
        self, y: FloatArray, scale: FloatArray, a: FloatArray, slope: float
    ) -> FloatArray:
        # The log weight rises by log((a + s)/(s + 1)) from s to s + 1, but for the noise; that is
        # at most (a - 1)/s.
        b = a - 1
        u = y / scale + slope * scale
        low = np.maximum(scale * u, 0.0)
        high = scale * (u + np.sqrt(np.maximum(u * u + 4 * b, 0.0))) / 2
        high = np.where(u < -1e4 * np.sqrt(np.abs(b) + 1), -b * scale / u, high)
        found = high
        for _ in range(_BISECTIONS if np.any(b > 0) else 0):
            found = (low + high) / 2
            rises = np.log((a + found) / (found + 1)) + (u - found / scale) / scale > 0
            low, high = np.where(rises, found, low), np.where(rises, high, found)
        return np.where(b > 0, found, high)


NORMAL = NormalShape()
"""The only one."""


@dataclass(frozen=True, slots=True)
class NormalTransform(Transform):
    """The characteristic function of the noise, about z."""

    smooth: ClassVar[bool] = True
    width: FloatArray
    z: FloatArray
    variance: FloatArray
    factor: FloatArray

    @property
    def log_factor(self) -> FloatArray:
        return self.factor

    def at(self, omega: FloatArray) -> ComplexArray:
        size = np.exp(-0.5 * self.variance[:, None] * omega**2)
        return np.asarray(size * turn(-omega * self.z[:, None]))


@dataclass(frozen=True, slots=True)
class NormalSum(Transform):
    """Over the few whole numbers, or blocks of them, that narrow noise reaches; z and sd are in
    blocks.
    """

    width: FloatArray
    first: FloatArray
    last: FloatArray
    offset: FloatArray
    z: FloatArray
    sd: FloatArray
    slope: FloatArray
    factor: FloatArray
    block: int

    @property
    def log_factor(self) -> FloatArray:
        return self.factor

    def at(self, omega: FloatArray) -> ComplexArray:
        peak = self.z - self.slope * self.block * self.sd**2
        reach = int(np.ceil(_REACH * self.sd.max())) + 1
        s = np.round(peak)[:, None] + np.arange(-reach, reach + 1)  # (batch, terms)
        height = np.exp(-0.5 * ((s - peak[:, None]) / self.sd[:, None]) ** 2)
        inside = (s >= self.first[:, None]) & (s <= self.last[:, None])
        turned = turn(-omega[:, :, None] * self.block * s[:, None, :])
        against = np.einsum("bs,bks->bk", np.where(inside, height, 0.0), turned)
        return within_blocks(against, omega, self.offset, self.slope, self.block)


@final
@dataclass(frozen=True, slots=True)
class Gaussian(Noise):
    """Independent normal noise; scale is its standard deviation."""

    kind: ClassVar[str] = "gaussian"
    shape: ClassVar[Shape] = NORMAL
    scale: Numbers

    def __post_init__(self) -> None:
        settle(self, "it is the standard deviation")

    def log_density(self, z: FloatArray) -> FloatArray:
        sd = self.scales
        return np.asarray(-0.5 * (z / sd) ** 2 - np.log(sd) - 0.5 * np.log(2 * np.pi))

    def cdf(self, z: FloatArray) -> FloatArray:
        return np.asarray(special.ndtr(z / self.scales))

    def characteristic(self, omega: FloatArray) -> FloatArray:
        return np.exp(-0.5 * (self.scales * omega) ** 2)

    def simulate(self, rng: np.random.Generator, size: int) -> FloatArray:
        return rng.standard_normal((size, self.scales.size)) * self.scales


@final
@dataclass(frozen=True, slots=True)
class DiscreteGaussian(Noise):
    """P(z = k step) proportional to exp(-(k step)^2 / 2 scale^2) on whole k (Canonne, Kamath,
    Steinke 2020).
    """

    kind: ClassVar[str] = "discrete_gaussian"
    shape: ClassVar[Shape] = NORMAL
    discrete: ClassVar[bool] = True
    on_numbers: ClassVar[type[Noise]] = Gaussian
    scale: Numbers
    step: Numbers

    def __post_init__(self) -> None:
        settle(self, "it is the parameter sigma of the discrete Gaussian")

    @property
    def _sigma(self) -> FloatArray:
        return self.scales / self.steps

    def log_density(self, z: FloatArray) -> FloatArray:
        return -0.5 * (z / self.scales) ** 2 - log_theta(self._sigma)

    def cdf(self, z: FloatArray) -> FloatArray:
        k, sigma = np.broadcast_arrays(np.floor(z / self.steps), self._sigma)
        # by symmetry P(noise <= k) = P(noise >= -k)
        upper = _upper_tail(np.abs(k + 0.5) + 0.5, sigma)
        return np.where(k < 0, upper, 1 - upper)

    def characteristic(self, omega: FloatArray) -> FloatArray:
        omega, sigma = np.broadcast_arrays(omega * self.steps, self._sigma)
        m = np.arange(-40, 41)
        wrapped = np.remainder(omega + np.pi, 2 * np.pi) - np.pi
        narrow, wide = np.minimum(sigma, 1.0)[..., None], np.maximum(sigma, 1.0)[..., None]
        direct = np.exp(-0.5 * (m / narrow) ** 2)
        # Poisson's summation formula
        dual = np.exp(-0.5 * (wide * (wrapped[..., None] + 2 * np.pi * m)) ** 2)
        at_zero = np.exp(-0.5 * (wide * 2 * np.pi * m) ** 2).sum(-1)
        return np.asarray(
            np.where(
                sigma < 1,
                (direct * np.cos(m * omega[..., None])).sum(-1) / direct.sum(-1),
                dual.sum(-1) / at_zero,
            )
        )

    def simulate(self, rng: np.random.Generator, size: int) -> FloatArray:
        sigma = np.broadcast_to(self._sigma, (size, self._sigma.size))
        out = np.full(sigma.shape, np.nan)
        # rejection from the discrete Laplace of Canonne et al., algorithm 3
        while (todo := np.isnan(out)).any():
            s = sigma[todo]
            t = np.floor(s) + 1
            e = np.floor(rng.standard_exponential((2, s.size)) * t)
            k = e[0] - e[1]
            accept = rng.random(s.size) < np.exp(-((np.abs(k) - s * s / t) ** 2) / (2 * s * s))
            out[todo] = np.where(accept, k, np.nan)
        return out * self.steps


def log_theta(sigma: FloatArray) -> FloatArray:
    """log of sum_k exp(-k^2 / 2 sigma^2)."""
    k = np.arange(1, 41)
    narrow, wide = np.minimum(sigma, 1.0)[..., None], np.maximum(sigma, 1.0)[..., None]
    direct = np.log1p(2 * np.exp(-0.5 * (k / narrow) ** 2).sum(-1))
    dual = (
        np.log(sigma)
        + 0.5 * np.log(2 * np.pi)
        + np.log1p(2 * np.exp(-2 * (np.pi * k * wide) ** 2).sum(-1))
    )
    return np.asarray(np.where(sigma < 1, direct, dual))


def _upper_tail(k: FloatArray, sigma: FloatArray) -> FloatArray:
    """P(noise >= k) for whole k >= 0: a sum for small sigma, else the Euler-Maclaurin (midpoint)
    expansion of it.
    """
    x = k - 0.5
    # sum_{j >= k} f(j) = int_x^inf f + f'(x)/24 - 7 f'''(x)/5760 + ..., f the normal density.
    f = np.exp(-0.5 * (x / sigma) ** 2) / (sigma * np.sqrt(2 * np.pi))
    first = -x / sigma**2 * f
    third = (3 * x / sigma**4 - x**3 / sigma**6) * f
    tail = np.asarray(special.ndtr(-x / sigma) + first / 24 - 7 * third / 5760)
    for small in np.unique(sigma[sigma < 32]):
        j = np.arange(1300)  # 40 sigma at sigma = 32
        sums = np.cumsum(np.exp(-0.5 * (j / small) ** 2 - log_theta(small))[::-1])[::-1]
        here = sigma == small
        tail[here] = sums[np.minimum(k[here], 1299).astype(int)]
    return tail
