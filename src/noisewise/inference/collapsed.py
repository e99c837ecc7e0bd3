"""Collapsed likelihood: the true statistic integrated out under a normal approximation of its law.

s ~ N(n E t^, n Var t^). With one Laplace statistic p(y | theta) is the normal-Laplace density; with two, the first is
integrated by quadrature and the second in closed form; with normal noise it is normal in any dimension.
"""

import numpy as np
from scipy import special

from noisewise.errors import UnsupportedCombination
from noisewise.model.arrays import FloatArray

ORDER = 20
_UNIT, _UNIT_WEIGHT = np.polynomial.legendre.leggauss(ORDER)
_REACH = 8.5
PIECE = 1 << 10
"""Thetas that two statistics are integrated for together: what stays in the processor's cache."""


def log_likelihood(mean: FloatArray, covariance: FloatArray, y: FloatArray, scale: FloatArray, gaussian: bool) -> FloatArray:
    """log p(y | theta), shape (batch,), from the mean (batch, d) and covariance (batch, d, d) of the sum."""
    d = mean.shape[1]
    with np.errstate(all="ignore"):  # a theta whose moments are not finite is impossible: NaN
        return _log_likelihood(mean, covariance, y, scale, gaussian, d)


def _log_likelihood(
    mean: FloatArray, covariance: FloatArray, y: FloatArray, scale: FloatArray, gaussian: bool, d: int
) -> FloatArray:
    if gaussian:
        return _normal(y - mean, covariance + np.eye(d) * scale[:, :, None] ** 2)
    if d == 1:
        return normal_laplace(y[:, 0] - mean[:, 0], covariance[:, 0, 0], scale[:, 0])
    if d == 2:
        pieces = (slice(start, start + PIECE) for start in range(0, len(mean), PIECE))
        return np.concatenate([_two(y[rows] - mean[rows], covariance[rows], scale[rows]) for rows in pieces])
    raise UnsupportedCombination(f"collapsed serves one or two statistics with Laplace noise, here are {d}; use method='gibbs'.")


def _normal(z: FloatArray, covariance: FloatArray) -> FloatArray:
    factor = np.linalg.cholesky(covariance)
    white = np.linalg.solve(factor, z[:, :, None])[:, :, 0]
    log_root = np.log(np.einsum("bdd->bd", factor)).sum(axis=1)
    return np.asarray(-0.5 * (white**2).sum(axis=1) - log_root - 0.5 * z.shape[1] * np.log(2 * np.pi))


def normal_laplace(z: FloatArray, v: FloatArray, b: FloatArray) -> FloatArray:
    """log of the density at z of N(0, v) + Laplace(b).

    e^{-z^2/2v}/4b [erfcx((v/b - z)/sqrt(2v)) + erfcx((v/b + z)/sqrt(2v))]: with the normal factor taken out nothing
    cancels at n = 10^12; where erfcx would overflow, its argument is far negative and e^{v/2b^2 -+ z/b} is plain.
    """
    v = np.maximum(v, 1e-24 * b * b)
    root = np.sqrt(2 * v)
    ratio = v / b
    near, far = (ratio - np.abs(z)) / root, (ratio + np.abs(z)) / root  # far >= 0
    common = -((z / root) ** 2)
    plain = ratio / (2 * b) - np.abs(z) / b  # log of e^{-near^2} relative to the common factor
    low = near < -5
    first = np.where(low, plain + np.log(special.erfc(np.where(low, near, 0.0))), 0.0)
    first = np.where(low, first, common + np.log(special.erfcx(np.where(low, 0.0, near))))
    second = common + np.log(special.erfcx(far))
    return np.asarray(np.logaddexp(first, second) - np.log(4 * b))


def _slope(z: FloatArray, v: FloatArray, b: FloatArray) -> FloatArray:
    """d/dz of `normal_laplace`: -tanh-like, between -1/b and 1/b."""
    root = np.sqrt(2 * v)
    up = (v / b - z) / root
    down = (v / b + z) / root
    log_odds = _log_erfcx(up) - _log_erfcx(down)
    return np.asarray(-np.tanh(0.5 * log_odds) / b)


def _log_erfcx(x: FloatArray) -> FloatArray:
    low = x < -5
    return np.asarray(
        np.where(low, x * x + np.log(special.erfc(np.where(low, x, 0.0))), np.log(special.erfcx(np.where(low, 0.0, x))))
    )


def _two(z: FloatArray, covariance: FloatArray, scale: FloatArray) -> FloatArray:
    """Two Laplace statistics: with e = s1 - E s1, integrate N(e; 0, v1) Laplace(z1 - e) NL(z2 - c e; v2 given e)."""
    v1 = np.maximum(covariance[:, 0, 0], 1e-24 * scale[:, 0] ** 2)
    c = covariance[:, 0, 1] / v1
    v2 = np.maximum(covariance[:, 1, 1] - c * covariance[:, 0, 1], 1e-24 * scale[:, 1] ** 2)
    v2 = np.maximum(v2, 1e-12 * covariance[:, 1, 1])
    b1, b2 = scale[:, 0], scale[:, 1]
    z1, z2 = z[:, 0], z[:, 1]
    sd = np.sqrt(v1)

    def log_integrand(e: FloatArray) -> FloatArray:  # (batch, m)
        first = -0.5 * (e / sd[:, None]) ** 2 - np.abs(z1[:, None] - e) / b1[:, None]
        return np.asarray(first + normal_laplace(z2[:, None] - c[:, None] * e, v2[:, None], b2[:, None]))

    # The log integrand is concave and at least as curved as the normal: bisect its slope, then look sd by sd.
    reach = v1 * (1 / b1 + np.abs(c) / b2)
    low, high = -reach, reach.copy()
    for _ in range(16):
        e = (low + high) / 2
        slope = -e / v1 + np.sign(z1 - e) / b1 - c * _slope(z2 - c * e, v2, b2)
        low, high = np.where(slope > 0, e, low), np.where(slope > 0, high, e)
    peak = (low + high) / 2
    top = log_integrand(peak[:, None])
    sides = []
    for sign in (-1.0, 1.0):
        tried = _REACH * sd[:, None] * 2.0 ** -np.arange(6.0)  # decreasing distances
        falls = top - log_integrand(peak[:, None] + sign * tried) > 34.0
        last = np.where(falls.any(axis=1), falls.shape[1] - 1 - np.argmax(falls[:, ::-1], axis=1), 0)
        sides.append(peak + sign * tried[np.arange(peak.size), last])
    middle = np.where((z1 > sides[0]) & (z1 < sides[1]), z1, peak)
    total = np.zeros(peak.shape)
    for start, end in ((sides[0], middle), (middle, sides[1])):
        half = (end - start) / 2
        nodes = start[:, None] + half[:, None] * (1 + _UNIT)
        total += half * (np.exp(log_integrand(nodes) - top) @ _UNIT_WEIGHT)
    return np.asarray(np.log(total) + top[:, 0] - np.log(sd * np.sqrt(2 * np.pi)) - np.log(2 * b1))
