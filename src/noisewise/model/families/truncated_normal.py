"""Probability and moments of a normal variable between two limits, accurate far in a tail."""

from typing import Any

import numpy as np
from scipy import special as sp

from noisewise.model.arrays import FloatArray, Namespace

NARROW = 0.1
"""Between limits that lie closer than this, in sds, the recursion's fourth moments lose over 12 of
16 digits: NaN instead.
"""
_ROOT_HALF_PI = np.sqrt(np.pi / 2)


def log_normal_probability(
    mean: Any, sd: Any, lower: float, upper: float, xp: Namespace, special: Namespace
) -> Any:
    """log P(lower <= x <= upper), mirrored into the lower tail, where log Phi keeps all
    its digits.
    """
    if lower == -np.inf and upper == np.inf:
        return 0.0 * (mean + sd)
    if upper == np.inf:
        return special.log_ndtr((mean - lower) / sd)
    if lower == -np.inf:
        return special.log_ndtr((upper - mean) / sd)
    alpha, beta = (lower - mean) / sd, (upper - mean) / sd
    mirror = alpha + beta > 0
    near = special.log_ndtr(xp.where(mirror, -alpha, beta))
    far = special.log_ndtr(xp.where(mirror, -beta, alpha))
    return near + xp.log(-xp.expm1(far - near))


def truncated_normal_moments(
    mean: FloatArray, sd: FloatArray, lower: float, upper: float
) -> tuple[FloatArray, ...]:
    """log P, E z, E z^2 and Var z, Cov(z, z^2), Var z^2 of z = (x - mean)/sd given lower <= x <=
    upper.

    NaN where the limits are too close together for it.

    The recursion m_k = (k - 1) m_{k-2} + a^{k-1} phi(a)/Z - b^{k-1} phi(b)/Z, in the mirror image
    with a + b >= 0.
    """
    log_q = log_normal_probability(mean, sd, lower, upper, np, sp)
    a, b = (lower - mean) / sd, (upper - mean) / sd
    sign = (
        np.where(a + b >= 0, 1.0, -1.0)
        if np.isfinite(lower + upper)
        else np.full(mean.shape, -1.0 if np.isfinite(upper) else 1.0)
    )
    a, b = np.where(sign > 0, a, -b), np.where(sign > 0, b, -a)
    pa, pb = _edge_densities(a, b)
    pa = np.where(b - a < NARROW, np.nan, pa)
    edge = [_times(a, pa, k) - _times(b, pb, k) for k in range(4)]
    m1 = edge[0]
    m2 = 1 + edge[1]
    m3 = 2 * m1 + edge[2]
    m4 = 3 * m2 + edge[3]
    return log_q, sign * m1, m2, m2 - m1**2, sign * (m3 - m1 * m2), m4 - m2**2


def _edge_densities(a: FloatArray, b: FloatArray) -> tuple[FloatArray, FloatArray]:
    """phi(a)/Z and phi(b)/Z with Z = Phi(b) - Phi(a), a + b >= 0; the factor phi(a) is taken out in
    the tail.
    """
    with np.errstate(over="ignore", invalid="ignore"):
        ratio = np.where(np.isinf(b), 0.0, np.exp(-0.5 * (b - a) * (b + a)))  # phi(b)/phi(a)
        tail_b = np.where(
            np.isinf(b), 0.0, ratio * sp.erfcx(np.where(np.isinf(b), 0.0, b) / np.sqrt(2))
        )
        in_tail = 1 / (_ROOT_HALF_PI * (sp.erfcx(np.maximum(a, -1) / np.sqrt(2)) - tail_b))
        phi_a = np.exp(-0.5 * a * a) / np.sqrt(2 * np.pi)
        straddling = phi_a / (sp.ndtr(b) - sp.ndtr(a))
    pa = np.where(a > -1, in_tail, straddling)
    return pa, np.where(
        a > -1, pa * ratio, np.exp(-0.5 * b * b) / np.sqrt(2 * np.pi) / (sp.ndtr(b) - sp.ndtr(a))
    )


def _times(x: FloatArray, density: FloatArray, power: int) -> FloatArray:
    """x^power * density, which is 0 at infinity."""
    return np.where(np.isinf(x), 0.0, np.where(np.isinf(x), 0.0, x) ** power * density)
