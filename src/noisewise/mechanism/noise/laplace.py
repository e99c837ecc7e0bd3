"""Laplace noise: that of pure differential privacy, on numbers and on a lattice."""

from dataclasses import dataclass
from typing import ClassVar, final

import numpy as np
from numpy.typing import NDArray
from scipy import special

from noisewise.mechanism.noise.base import Noise, Numbers, settle
from noisewise.mechanism.noise.shape import Shape
from noisewise.mechanism.noise.transform import PAD, Seen, Transform, within_blocks
from noisewise.model.arrays import ComplexArray, FloatArray, IntArray, turn

STEEPEST = 1 - 1e-7
"""Times 1/scale: at 1/scale itself, one side of the tilted noise would not fall."""
_ORDER = 12
"""Nodes of each of the panels of two statistics."""
_UNIT, _UNIT_WEIGHT = np.polynomial.legendre.leggauss(_ORDER)
_FALL = 12.0
"""Where the integrand of two statistics is e^-12 of its peak, it ends."""
_OVERFLOWS = -26.0
"""erfcx(-26) is e^676."""
_PIECE = 1 << 10
"""Thetas that two statistics are integrated for together: what stays in the processor's cache."""
_LEAST_VARIANCE = 1e-24
"""Of a sum, in squared scales: with less the noise alone is there."""
_SMALLEST = 1e-9
"""The smallest |z| in scales at which the normal's variance is drawn: at 0 it is not defined."""


@final
class LaplaceShape(Shape):
    """exp(-|z|/scale) / (2 scale)."""

    variance: ClassVar[float] = 2.0
    most_statistics: ClassVar[float] = 2
    mixes: ClassVar[bool] = True
    counts: ClassVar[bool] = True

    def log_kernel(self, z: FloatArray, scale: FloatArray) -> FloatArray:
        return -np.abs(z) / scale

    def slope(self, z: FloatArray, scale: FloatArray) -> FloatArray:
        return -np.sign(z) / scale

    def log_constant(self, scale: FloatArray) -> FloatArray:
        return -np.log(2 * scale)

    def reach(self, fall: FloatArray, scale: FloatArray) -> FloatArray:
        return fall * scale

    def log_constant_on_lattice(self, scale: FloatArray) -> FloatArray:
        return np.log(np.tanh(0.5 / scale))

    def log_with_normal(self, z: FloatArray, variance: FloatArray, scale: FloatArray) -> FloatArray:
        # e^{-z^2/2v}/4b [erfcx((v/b - z)/sqrt(2v)) + erfcx((v/b + z)/sqrt(2v))]: with the normal
        # factor taken out nothing cancels at n = 10^12; where erfcx would overflow, the noise's
        # tail e^{v/2b^2 - |z|/b} is plain.
        log, factor = _parts(z, np.maximum(variance, _LEAST_VARIANCE * scale * scale), scale)
        return np.asarray(log + np.log(factor) - np.log(4 * scale))

    def log_with_normals(
        self, z: FloatArray, covariance: FloatArray, scale: FloatArray
    ) -> FloatArray:
        if z.shape[1] != 2:
            return super().log_with_normals(z, covariance, scale)
        pieces = (slice(start, start + _PIECE) for start in range(0, len(z), _PIECE))
        with np.errstate(all="ignore"):  # statistics that do not covary divide by 0 on purpose
            return np.concatenate([_two(z[rows], covariance[rows], scale[rows]) for rows in pieces])

    def steepest(self, scale: FloatArray) -> FloatArray:
        return STEEPEST / scale

    def transform(self, seen: Seen) -> Transform:
        p, q = 1 / seen.scale - seen.slope, 1 / seen.scale + seen.slope
        if seen.on_lattice:
            first, last, width, offset, z = seen.whole
            blocks = seen.block
            return LaplaceSum(
                width, first, last, offset, z, p * blocks, q * blocks, seen.slope, blocks
            )
        pad = PAD * (seen.below + seen.above)
        low, high = -seen.below - pad, seen.above + pad
        return LaplaceIntegral(high - low, low, high, seen.distance, p, q)

    def mixing_variance(
        self, z: FloatArray, scale: FloatArray, normal: FloatArray, uniform: FloatArray
    ) -> FloatArray:
        # The variance is exponential (Park & Casella 2008), and given z its inverse is inverse
        # Gaussian. The two roots of Michael, Schucany & Haas (1976) are sums here, which do not
        # cancel.
        r = np.maximum(np.abs(z) / scale, _SMALLEST)
        h = 0.5 * normal**2
        root = r + h + np.sqrt(h * (h + 2 * r))
        chosen = np.where(uniform * (root + r) < root, root, r * r / root)
        return np.asarray(scale**2 * chosen)

    def kernel_change(self, miss: FloatArray, shift: FloatArray, scale: FloatArray) -> FloatArray:
        side = np.where(miss >= 0, 1.0, -1.0)
        same = side * (miss - shift) >= 0
        return np.asarray(np.where(same, side * shift, side * (2 * miss - shift)) / scale)

    def likeliest_count(
        self, y: FloatArray, scale: FloatArray, a: FloatArray, slope: float
    ) -> FloatArray:
        # The log weight rises by log((a + s)/(s + 1)) from s to s + 1, but for the noise.
        rates = (1 / scale - slope, -1 / scale - slope)
        after, before = ((a - np.exp(c)) / np.expm1(c) for c in rates)
        after = np.where(slope >= 1 / scale, np.inf, after)
        before = np.where(slope >= -1 / scale, np.inf, before)
        return np.asarray(np.maximum(np.minimum(y, before), np.where(a > 1, after, -np.inf)))


LAPLACE = LaplaceShape()
"""The only one."""


@dataclass(frozen=True, slots=True)
class LaplaceIntegral(Transform):
    """Over a window of numbers: the tilted noise falls at rate p above the sum, q below it."""

    width: FloatArray
    low: FloatArray
    high: FloatArray
    z: FloatArray
    p: FloatArray
    q: FloatArray

    def at(self, omega: FloatArray) -> ComplexArray:
        low, high, z, p, q = (
            column[:, None] for column in (self.low, self.high, self.z, self.p, self.q)
        )
        kink = np.clip(z, low, high)
        rise, fall = _height(p * (kink - z), kink > low), _height(q * (z - kink), kink < high)
        left, right = p * (low - kink), q * (kink - high)
        # e^{-i w s} is the same at both ends of the window
        at_kink, at_ends = turn(-omega * kink), turn(-omega * low)
        with np.errstate(all="ignore"):
            constant = -rise * np.expm1(left) / p - fall * np.expm1(right) / q
            rising = rise / (p - 1j * omega) * (at_kink - np.exp(left) * at_ends)
            falling = fall / (q + 1j * omega) * (at_kink - np.exp(right) * at_ends)
        return np.asarray(np.where(omega == 0, constant, rising + falling))

    def weigh(self, away: FloatArray) -> FloatArray:
        z, p, q = (
            column.reshape(-1, *(1,) * (away.ndim - 1)) for column in (self.z, self.p, self.q)
        )
        z = z - away
        return np.exp(np.where(z > 0, -p * z, q * z))


@dataclass(frozen=True, slots=True)
class LaplaceSum(Transform):
    """Over a window of whole numbers, or of blocks of them, in which z, p and q are."""

    width: FloatArray
    first: FloatArray
    last: FloatArray
    offset: FloatArray
    z: FloatArray
    p: FloatArray
    q: FloatArray
    slope: FloatArray
    block: int

    def at(self, omega: FloatArray) -> ComplexArray:
        low, high, z, p, q = (
            column[:, None] for column in (self.first, self.last, self.z, self.p, self.q)
        )
        w = omega if self.block == 1 else omega * self.block
        kink = np.clip(np.floor(z), low - 1, high)  # the last whole number up to z
        rise = _height(p * (kink - z), kink >= low)
        fall = _height(q * (z - kink - 1), kink < high)
        left, right = p * (low - 1 - kink), q * (kink - high)
        one, at_kink, at_ends = turn(-w), turn(-w * kink), turn(-w * (low - 1))
        with np.errstate(all="ignore"):
            constant = rise * np.expm1(left) / np.expm1(-p) + fall * np.expm1(right) / np.expm1(-q)
            rising = rise / (1 - np.exp(-p) * one.conj()) * (at_kink - np.exp(left) * at_ends)
            falling = fall * one / (1 - np.exp(-q) * one) * (at_kink - np.exp(right) * at_ends)
        against = np.where(w == 0, constant, rising + falling)
        return within_blocks(against, omega, self.offset, self.slope, self.block)


def _height(exponent: FloatArray, there: NDArray[np.bool_]) -> FloatArray:
    """The noise at the inner end of a side of the window that is not empty."""
    return np.exp(np.where(there, exponent, -np.inf))


def _parts(z: FloatArray, v: FloatArray, b: FloatArray) -> tuple[FloatArray, FloatArray]:
    """The same density, but for 1/4b, as the logarithm of a factor and another factor."""
    root = np.sqrt(2 * v)
    ratio, far = v / b, np.abs(z)
    near = (ratio - far) / root
    body = special.erfcx(np.maximum(near, _OVERFLOWS)) + special.erfcx((ratio + far) / root)
    plain = near < _OVERFLOWS
    return np.where(plain, ratio / (2 * b) - far / b, -((z / root) ** 2)), np.where(
        plain, 2.0, body
    )


def _slope(z: FloatArray, v: FloatArray, b: FloatArray) -> FloatArray:
    """d/dz of `normal_laplace`: -tanh-like, between -1/b and 1/b."""
    root = np.sqrt(2 * v)
    up, down = (special.erfcx(np.maximum((v / b + side) / root, _OVERFLOWS)) for side in (-z, z))
    return np.asarray((down - up) / (down + up) / b)


def _two(z: FloatArray, covariance: FloatArray, scale: FloatArray) -> FloatArray:
    """Two Laplace statistics: with e = s1 - E s1, integrate N(e; 0, v1) Laplace(z1 - e) NL(z2 - c
    e; v2 given e).
    """
    v1 = np.maximum(covariance[:, 0, 0], _LEAST_VARIANCE * scale[:, 0] ** 2)
    c = covariance[:, 0, 1] / v1
    v2 = np.maximum(
        covariance[:, 1, 1] - c * covariance[:, 0, 1], _LEAST_VARIANCE * scale[:, 1] ** 2
    )
    v2 = np.maximum(v2, 1e-12 * covariance[:, 1, 1])
    b1, b2 = scale[:, 0], scale[:, 1]
    z1, z2 = z[:, 0], z[:, 1]
    sd = np.sqrt(v1)

    # (rows, m)
    def integrand(
        e: FloatArray, rows: slice | IntArray = slice(None)
    ) -> tuple[FloatArray, FloatArray]:
        """The logarithm of a factor, and another factor."""
        of = [x[rows, None] for x in (z1, z2, sd, c, v2, b1, b2)]
        first = -0.5 * (e / of[2]) ** 2 - np.abs(of[0] - e) / of[5]
        log, factor = _parts(of[1] - of[3] * e, of[4], of[6])
        return first + log, factor

    def log_integrand(e: FloatArray) -> FloatArray:
        log, factor = integrand(e)
        return np.asarray(log + np.log(factor))

    # The log integrand is concave: bisect its slope to a quarter of the peak's width.
    steep = sd * (1 / b1 + np.abs(c) / b2)
    low, high = -sd * steep, sd * steep
    for _ in range(int(np.log2(1 + np.nanmax(steep + steep**2))) + 3):
        e = (low + high) / 2
        slope = -e / v1 + np.sign(z1 - e) / b1 - c * _slope(z2 - c * e, v2, b2)
        low, high = np.where(slope > 0, e, low), np.where(slope > 0, high, e)
    peak = (low + high) / 2
    top = log_integrand(peak[:, None])
    # It falls like the normal or like an exponential; a step that is right for the first does not
    # cut the second.
    reach = np.sqrt(2 * _FALL) * sd[:, None] * np.array([-1.0, 1.0])
    for _ in range(4):
        fall = top - log_integrand(peak[:, None] + reach)
        reach = reach * np.sqrt(_FALL / np.maximum(fall, _FALL))
    low, high = peak + reach[:, 0], peak + reach[:, 1]
    # The noise of either statistic has a kink, the second one's a soft one: no rule of quadrature
    # may cross it.
    kinks = np.clip(np.stack([z1, np.nan_to_num(z2 / c)]), low, high)
    ends = np.stack([low, *np.sort(kinks, axis=0), high], axis=1)
    half = np.diff(ends) / 2
    # where a kink lies outside there is nothing on its other side
    rows, part = np.nonzero(half > 0)
    log, factor = integrand(ends[rows, part, None] + half[rows, part, None] * (1 + _UNIT), rows)
    height = (factor * np.exp(log - top[rows])) @ _UNIT_WEIGHT
    total = np.bincount(rows, height * half[rows, part], len(z))
    return np.asarray(np.log(total) + top[:, 0] - np.log(sd * np.sqrt(2 * np.pi) * 8 * b1 * b2))


@final
@dataclass(frozen=True, slots=True)
class Laplace(Noise):
    """Independent noise of density exp(-|z|/b)/2b on each statistic; b is L1
    sensitivity / epsilon.
    """

    kind: ClassVar[str] = "laplace"
    shape: ClassVar[Shape] = LAPLACE
    scale: Numbers

    def __post_init__(self) -> None:
        settle(self, "it is L1 sensitivity / epsilon")

    def log_density(self, z: FloatArray) -> FloatArray:
        b = self.scales
        return -np.abs(z) / b - np.log(2 * b)

    def cdf(self, z: FloatArray) -> FloatArray:
        tail = 0.5 * np.exp(-np.abs(z) / self.scales)
        return np.where(z < 0, tail, 1 - tail)

    def characteristic(self, omega: FloatArray) -> FloatArray:
        return 1 / (1 + (self.scales * omega) ** 2)

    def simulate(self, rng: np.random.Generator, size: int) -> FloatArray:
        return rng.laplace(0.0, self.scales, (size, self.scales.size))


@final
@dataclass(frozen=True, slots=True)
class DiscreteLaplace(Noise):
    """P(z = k step) = tanh(step/2b) exp(-|k| step/b) on whole k; b is L1 sensitivity / epsilon."""

    kind: ClassVar[str] = "discrete_laplace"
    shape: ClassVar[Shape] = LAPLACE
    discrete: ClassVar[bool] = True
    on_numbers: ClassVar[type[Noise]] = Laplace
    scale: Numbers
    step: Numbers

    def __post_init__(self) -> None:
        settle(self, "it is L1 sensitivity / epsilon")

    @property
    def _decay(self) -> FloatArray:
        return self.steps / self.scales

    def log_density(self, z: FloatArray) -> FloatArray:
        return np.log(np.tanh(self._decay / 2)) - np.abs(z) / self.scales

    def cdf(self, z: FloatArray) -> FloatArray:
        k = np.floor(z / self.steps)
        # P(noise <= k) = e^{(k+1) a}/(1 + e^a) for k < 0, with a = step/b.
        below = np.exp((np.minimum(k, -1) + 1) * self._decay) * special.expit(-self._decay)
        above = np.exp(-np.maximum(k, 0) * self._decay) * special.expit(-self._decay)
        return np.asarray(np.where(k < 0, below, 1 - above))

    def characteristic(self, omega: FloatArray) -> FloatArray:
        # (1 - e^-a)^2 / (1 - 2 e^-a cos(w) + e^-2a), divided through by 4 e^-a.
        half = np.sinh(self._decay / 2) ** 2
        return np.asarray(half / (half + np.sin(omega * self.steps / 2) ** 2))

    def simulate(self, rng: np.random.Generator, size: int) -> FloatArray:
        # The difference of two geometric variables; floor(Exponential(a)) is geometric with ratio
        # e^-a.
        e = np.floor(rng.standard_exponential((2, size, self._decay.size)) / self._decay)
        return np.asarray((e[0] - e[1]) * self.steps)
