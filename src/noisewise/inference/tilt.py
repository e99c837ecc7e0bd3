"""Exponential tilting of a sum of n records' statistics, and a window that holds the tilted sum.

With K(l) = log E e^{l t^}, the weights w e^{l t^ - K(l)} are again a law, and
  p(y | theta) = e^{n K(l) - l y} E_l[ e^{l (y - s)} p(y | s) ],
so l may be chosen to put the mean of s where y is: an extreme y then costs no digits. Everything is
kept relative to
the record's mean, so that n K(l) has full precision at n = 10^12.
"""

from dataclasses import dataclass

import numpy as np

from noisewise.model.arrays import FloatArray, IntArray, highest

OUTSIDE = 24.0
"""The window leaves out e^-24 of the tilted sum on either side."""
_STEPS = (0.3, 1.0, 3.0, 8.0)
"""Slopes, in inverse sds, at which Chernoff's bound of a sum's reach is computed,"""
_RARE_STEPS = (1.0, 3.0, 8.0, 20.0, 50.0)
"""and, where these leave it more than _LOOSE sds, in inverse largest values of one record."""
_LOOSE = 40.0


@dataclass(frozen=True, slots=True)
class Tilted:
    """One record's law under the tilt; the sum of n has mean n * (mean + shift)."""

    log_factor: FloatArray  # (batch,): n K(l) - l y
    slope: FloatArray  # (batch,): l
    weight: FloatArray  # (batch, m)
    centred: FloatArray  # (batch, m): values relative to the tilted mean
    total_mean: FloatArray  # (batch,): of the sum, tilted
    distance: FloatArray  # (batch,): y less that mean


def tilt(
    value: FloatArray,
    weight: FloatArray,
    n: FloatArray,
    y: FloatArray,
    limit: FloatArray,
    variance: FloatArray,
) -> Tilted:
    """Choose l so that the tilted sum, plus normal noise of that variance, has mean y; |l| stays
    within `limit`.
    """
    mean = np.einsum("bm,bm->b", weight, value)
    u = value - mean[:, None]
    target = y - n * mean
    slope = _slope(u, weight, n, target, limit, variance)
    log_mean, tilted = log_mean_exp(slope[:, None] * u, weight)
    shift = np.einsum("bm,bm->b", tilted, u)
    centred = u - shift[:, None]
    return Tilted(
        n * log_mean - slope * target,
        slope,
        tilted,
        centred,
        n * mean + n * shift,
        target - n * shift,
    )


def _slope(
    u: FloatArray,
    weight: FloatArray,
    n: FloatArray,
    target: FloatArray,
    limit: FloatArray,
    variance: FloatArray,
) -> FloatArray:
    """Newton's method within a bracket from 0 to the limit on the target's side, to a twentieth of
    an sd.
    """
    with np.errstate(divide="ignore", invalid="ignore"):
        limit = np.sign(target) * np.minimum(
            limit, np.where(variance > 0, np.abs(target) / variance, np.inf)
        )
    spread = n * np.einsum("bm,bm->b", weight, u * u) + variance
    near, far, untried = np.zeros(n.shape), limit.copy(), np.ones(n.shape, dtype=bool)
    out: FloatArray = np.clip(
        target / np.maximum(spread, 1e-300), np.minimum(limit, 0), np.maximum(limit, 0)
    )
    rows = np.flatnonzero(np.abs(target) > 0.05 * np.sqrt(spread))
    u, weight = u[rows], weight[rows]
    for _ in range(80):
        if rows.size == 0:
            break
        slope = out[rows]
        tilted = grown(slope[:, None] * u, weight)[0]
        tilted /= np.einsum("bm->b", tilted)[:, None]
        shift = np.einsum("bm,bm->b", tilted, u)
        spread = n[rows] * np.einsum("bm,bm->b", tilted, (u - shift[:, None]) ** 2) + variance[rows]
        miss = target[rows] - n[rows] * shift - variance[rows] * slope
        short = miss * np.sign(limit[rows]) > 0
        at_limit = slope == limit[rows]
        untried[rows] &= ~at_limit
        near[rows], far[rows] = (
            np.where(short, slope, near[rows]),
            np.where(short, far[rows], slope),
        )
        low, high = near[rows], far[rows]
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            step = slope + miss / spread
        share = (step - low) / np.where(high == low, 1.0, high - low)
        # the limit itself before any halving
        beyond = np.where(untried[rows] & (share >= 1), high, (low + high) / 2)
        out[rows] = np.where((share > 0) & (share < 1), step, beyond)
        done = (
            (np.abs(miss) <= 0.05 * np.sqrt(spread))
            | (at_limit & short)
            | (np.abs(high - low) <= 1e-9 * np.abs(high))
        )
        out[rows[done]] = slope[done]
        if done.any():
            rows, u, weight = rows[~done], u[~done], weight[~done]
    return out


def window(
    centred: FloatArray,
    weight: FloatArray,
    n: FloatArray,
    variance: FloatArray,
    outside: float = OUTSIDE,
) -> tuple[FloatArray, FloatArray]:
    """How far below and above its mean the tilted sum, plus normal noise, reaches: Chernoff's bound
    at a few slopes.
    """
    spread = np.einsum("bm,bm->b", weight, centred * centred)
    total_sd = np.sqrt(n * np.maximum(spread, (1e-14 * highest(np.abs(centred))) ** 2) + variance)
    largest = np.maximum(highest(np.abs(centred)), 1e-300)
    reach = []
    for sign in (-1.0, 1.0):

        def bound(
            slope: FloatArray, rows: IntArray | slice = slice(None), sign: float = sign
        ) -> FloatArray:
            heights, top = grown((sign * slope)[:, None] * centred[rows], weight[rows])
            log_mean = np.log(np.einsum("bm->b", heights)) + top
            return np.asarray(
                (n[rows] * log_mean + 0.5 * variance[rows] * slope**2 + outside) / slope
            )

        best = np.minimum.reduce([bound(j / total_sd) for j in _STEPS])
        # few records away from one place: a Poisson's tail, not a normal's
        rare = np.flatnonzero(~(best < _LOOSE * total_sd))
        if rare.size:
            best[rare] = np.fmin.reduce(
                [best[rare], *(bound(j / largest[rare], rare) for j in _RARE_STEPS)]
            )
        edge = n * highest(sign * centred) + np.sqrt(2 * outside * variance)
        reach.append(np.fmin(best, edge))
    return reach[0], reach[1]


def log_mean_exp(a: FloatArray, weight: FloatArray) -> tuple[FloatArray, FloatArray]:
    """log E e^a and the tilted weights. E a is about 0, and small exponents keep their digits by
    expm1.
    """
    tilted, top = grown(a, weight)
    total = np.einsum("bm->b", tilted)
    log_mean = np.log(total) + top
    small = top < 1.0
    if small.any():
        log_mean[small] = np.log1p(
            np.einsum("bm,bm->b", weight[small], np.expm1(np.minimum(a[small], 1.0)))
        )
    return log_mean, tilted / total[:, None]


def grown(a: FloatArray, weight: FloatArray) -> tuple[FloatArray, FloatArray]:
    """weight * e^(a - top), with `top` the highest a that has weight."""
    top = highest(np.where(weight > 0, a, -np.inf))
    return weight * np.exp(np.minimum(a - top[:, None], 1.0)), top
