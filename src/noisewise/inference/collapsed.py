"""Collapsed likelihood: the true statistic integrated out under a normal approximation of its law.

s ~ N(n E t^, n Var t^). With one Laplace statistic p(y | theta) is the normal-Laplace density; with
two, the first is integrated by quadrature and the second in closed form; with normal noise it is
normal in any dimension.
"""

import numpy as np
from scipy import special

from noisewise.errors import UnsupportedCombination
from noisewise.model.arrays import FloatArray, IntArray

ORDER = 12
_UNIT, _UNIT_WEIGHT = np.polynomial.legendre.leggauss(ORDER)
_FALL = 12.0
"""Where the integrand is e^-12 of its peak, it ends."""
_OVERFLOWS = -26.0
"""erfcx(-26) is e^676."""
PIECE = 1 << 10
"""Thetas that two statistics are integrated for together: what stays in the processor's cache."""


def log_likelihood(
    mean: FloatArray, covariance: FloatArray, y: FloatArray, scale: FloatArray, gaussian: bool
) -> FloatArray:
    """log p(y | theta), shape (batch,), from the mean (batch, d) and covariance (batch, d, d) of
    the sum.
    """
    d = mean.shape[1]
    with np.errstate(all="ignore"):  # a theta whose moments are not finite is impossible: NaN
        return _log_likelihood(mean, covariance, y, scale, gaussian, d)


def _log_likelihood(
    mean: FloatArray,
    covariance: FloatArray,
    y: FloatArray,
    scale: FloatArray,
    gaussian: bool,
    d: int,
) -> FloatArray:
    if gaussian:
        return _normal(y - mean, covariance + np.eye(d) * scale[:, :, None] ** 2)
    if d == 1:
        return normal_laplace(y[:, 0] - mean[:, 0], covariance[:, 0, 0], scale[:, 0])
    if d == 2:
        pieces = (slice(start, start + PIECE) for start in range(0, len(mean), PIECE))
        return np.concatenate(
            [_two(y[rows] - mean[rows], covariance[rows], scale[rows]) for rows in pieces]
        )
    raise UnsupportedCombination(
        "collapsed serves one or two statistics with Laplace noise, here "
        f"are {d}; use method='gibbs'."
    )


def _normal(z: FloatArray, covariance: FloatArray) -> FloatArray:
    """The normal density by elimination; NaN where the covariance is none, which NumPy's Cholesky
    would refuse for all.
    """
    d = z.shape[1]
    z, covariance = z.copy(), covariance.copy()
    total = np.full(len(z), -0.5 * d * np.log(2 * np.pi))
    for j in range(d):  # the j-th given those before it, then taken out of those after it
        variance = np.where(covariance[:, j, j] > 0, covariance[:, j, j], np.nan)
        total -= 0.5 * (z[:, j] ** 2 / variance + np.log(variance))
        share = covariance[:, j + 1 :, j] / variance[:, None]
        z[:, j + 1 :] -= share * z[:, j, None]
        covariance[:, j + 1 :, j + 1 :] -= share[:, :, None] * covariance[:, None, j, j + 1 :]
    return np.asarray(total)


def normal_laplace(z: FloatArray, v: FloatArray, b: FloatArray) -> FloatArray:
    """log of the density at z of N(0, v) + Laplace(b).

    e^{-z^2/2v}/4b [erfcx((v/b - z)/sqrt(2v)) + erfcx((v/b + z)/sqrt(2v))]: with the normal factor
    taken out nothing cancels at n = 10^12; where erfcx would overflow, the noise's tail e^{v/2b^2 -
    |z|/b} is plain.
    """
    log, factor = _parts(z, np.maximum(v, 1e-24 * b * b), b)
    return np.asarray(log + np.log(factor) - np.log(4 * b))


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
    v1 = np.maximum(covariance[:, 0, 0], 1e-24 * scale[:, 0] ** 2)
    c = covariance[:, 0, 1] / v1
    v2 = np.maximum(covariance[:, 1, 1] - c * covariance[:, 0, 1], 1e-24 * scale[:, 1] ** 2)
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
