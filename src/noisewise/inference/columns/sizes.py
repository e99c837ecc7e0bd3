"""Functions of the number of records that keep their digits from a few records to 10^12."""

import numpy as np
from scipy import special

from noisewise.model.arrays import FloatArray

LARGE = 1e3
"""From here on the asymptotic series is exact to rounding."""


def _stirling(z: FloatArray) -> FloatArray:
    """log Gamma(z) less (z - 1/2) log z - z + log(2 pi)/2."""
    far = np.maximum(z, LARGE)
    series = 1 / (12 * far) - 1 / (360 * far**3)
    near = np.minimum(z, LARGE)
    exact = special.gammaln(near) - ((near - 0.5) * np.log(near) - near + 0.5 * np.log(2 * np.pi))
    return np.where(z < LARGE, exact, series)


def log_less_digamma(z: FloatArray) -> FloatArray:
    """log z - psi(z)."""
    far, near = np.maximum(z, LARGE), np.minimum(z, LARGE)
    series = 1 / (2 * far) + 1 / (12 * far**2) - 1 / (120 * far**4)
    return np.where(z < LARGE, np.log(near) - special.digamma(near), series)


def log_height(n: FloatArray, p: int) -> tuple[FloatArray, FloatArray]:
    """(v/2) log(n/2) - n/2 - log Gamma(v/2) with v = n - p, and its derivative in n."""
    z = (n - p) / 2
    bend = -np.log1p(-p / n)
    value = z * bend + 0.5 * np.log(z) - p / 2 - 0.5 * np.log(2 * np.pi) - _stirling(z)
    return value, 0.5 * (bend + log_less_digamma(z)) - p / (2 * n)


def log_gamma_ratio(z: FloatArray, a: float) -> tuple[FloatArray, FloatArray]:
    """log Gamma(z + a) - log Gamma(z), and its derivative in z."""
    value = a * np.log(z + a) + (z - 0.5) * np.log1p(a / z) - a + _stirling(z + a) - _stirling(z)
    slope = np.log1p(a / z) - log_less_digamma(z + a) + log_less_digamma(z)
    return value, slope
