"""Exponential tilting of a sum of n records' statistics, and a window that holds the tilted sum.

With K(l) = log E e^{l t^}, the weights w e^{l t^ - K(l)} are again a law, and
  p(y | theta) = e^{n K(l) - l y} E_l[ e^{l (y - s)} p(y | s) ],
so l may be chosen to put the mean of s where y is: an extreme y then costs no digits. Everything is
kept relative to
the record's mean, so that n K(l) has full precision at n = 10^12.
"""

from dataclasses import dataclass

import numpy as np

from noisewise.model.arrays import ComplexArray, FloatArray, IntArray, highest

CHUNK = 256
"""Thetas of two statistics whose tilt is sought together: what stays in the processor's cache."""
_STEPS = np.array([0.3, 1.0, 3.0, 8.0])
"""Slopes, in inverse sds, at which Chernoff's bound of a sum's reach is computed,"""
_RARE_STEPS = np.array([1.0, 3.0, 8.0, 20.0, 50.0])
"""and, where these leave it more than _LOOSE sds, in inverse largest values of one record."""
_LOOSE = 40.0
"""A normal sum leaves out e^-24 beyond 7 sds; a bound of 40 sds says nothing."""


@dataclass(frozen=True, slots=True)
class Tilted:
    """One record's law under the tilt, and the sum of n of them."""

    log_factor: FloatArray  # (batch,): n K(l) - l y
    slope: FloatArray  # (batch, d): l
    weight: FloatArray  # (batch, m)
    centred: FloatArray  # (batch, m, d): values relative to the tilted mean
    total_mean: FloatArray  # (batch, d): of the sum, tilted
    distance: FloatArray  # (batch, d): y less that mean

    def take(self, rows: "IntArray | slice") -> "Tilted":
        """Some of the batch."""
        return Tilted(
            self.log_factor[rows],
            self.slope[rows],
            self.weight[rows],
            self.centred[rows],
            self.total_mean[rows],
            self.distance[rows],
        )


def tilt(
    value: FloatArray,
    weight: FloatArray,
    n: FloatArray,
    y: FloatArray,
    limit: FloatArray,
    curvature: FloatArray,
) -> Tilted:
    """Choose l so that the tilted sum, plus noise that moves by `curvature` for each unit of l, has
    mean y; |l| stays within `limit`.

    value is (batch, m, d), of one or two statistics; y, limit and curvature are (batch, d).
    """
    mean = np.einsum("bm,bmd->bd", weight, value)
    u = value - mean[:, None, :]
    target = y - n[:, None] * mean
    if y.shape[1] == 1:
        known = (u[:, :, 0], weight, n, target[:, 0], limit[:, 0], curvature[:, 0])
        slope = _slope(*known)[:, None]
        exponent = slope * u[:, :, 0]
    else:
        slope = np.empty(y.shape)
        for start in range(0, n.size, CHUNK):
            rows = slice(start, start + CHUNK)
            known = (u[rows], weight[rows], n[rows], target[rows], limit[rows], curvature[rows])
            slope[rows] = _slopes(*known)
        exponent = np.einsum("bmd,bd->bm", u, slope)
    log_mean, tilted = log_mean_exp(exponent, weight)
    shift = np.einsum("bm,bmd->bd", tilted, u)
    moved = n[:, None] * shift
    return Tilted(
        n * log_mean - (slope * target).sum(axis=1),
        slope,
        tilted,
        u - shift[:, None, :],
        n[:, None] * mean + moved,
        target - moved,
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


def _slopes(
    u: FloatArray,
    weight: FloatArray,
    n: FloatArray,
    target: FloatArray,
    limit: FloatArray,
    variance: FloatArray,
) -> FloatArray:
    """A damped Newton method within the box |l_j| <= limit_j, to about a tenth of an sd."""
    out, rows = np.zeros(target.shape), np.arange(n.size)
    u1, u2 = np.ascontiguousarray(u[:, :, 0]), np.ascontiguousarray(u[:, :, 1])
    for _ in range(80):
        slope = out[rows]
        tilted = grown(slope[:, :1] * u1 + slope[:, 1:] * u2, weight)[0]
        tilted /= tilted.sum(axis=1, keepdims=True)
        shift = np.stack(
            [np.einsum("bm,bm->b", tilted, u1), np.einsum("bm,bm->b", tilted, u2)], axis=1
        )
        c1, c2 = u1 - shift[:, :1], u2 - shift[:, 1:]
        a, d, b = (
            n[rows] * np.einsum("bm,bm->b", tilted, product)
            for product in (c1 * c1, c2 * c2, c1 * c2)
        )
        a, d = (
            a * (1 + 1e-12) + variance[rows, 0] + 1e-290,
            d * (1 + 1e-12) + variance[rows, 1] + 1e-290,
        )
        miss = target[rows] - n[rows, None] * shift - variance[rows] * slope
        held = (np.abs(slope) >= limit[rows]) & (miss * slope > 0)
        miss, b = np.where(held, 0.0, miss), np.where(held.any(axis=1), 0.0, b)
        determinant = np.maximum(a * d - b * b, 1e-12 * a * d)
        step = (
            np.stack([d * miss[:, 0] - b * miss[:, 1], a * miss[:, 1] - b * miss[:, 0]], axis=1)
            / determinant[:, None]
        )
        going = (step * miss).sum(axis=1) > 0.01
        if not going.any():
            break
        furthest = np.abs(step[:, :1] * u1 + step[:, 1:] * u2).max(axis=1)
        moved = np.clip(
            slope + step / np.maximum(furthest / 2, 1.0)[:, None], -limit[rows], limit[rows]
        )
        out[rows[going]] = moved[going]
        rows, u1, u2, weight = rows[going], u1[going], u2[going], weight[going]
    return out


def window(
    centred: FloatArray,
    weight: FloatArray,
    n: FloatArray,
    variance: FloatArray,
    outside: float,
) -> tuple[FloatArray, FloatArray]:
    """How far below and above its mean the tilted sum, plus normal noise, reaches: Chernoff's bound
    at a few slopes.
    """
    spread = np.einsum("bm,bm->b", weight, centred * centred)
    lowest, largest = -highest(-centred), highest(centred)
    size = np.maximum(np.maximum(-lowest, largest), 1e-300)
    total_sd = np.sqrt(n * np.maximum(spread, (1e-14 * size) ** 2) + variance)
    best = _chernoff(centred, weight, n, variance, outside, _STEPS / total_sd[:, None])
    # few records away from one place: a Poisson's tail, not a normal's
    rare = np.flatnonzero(~(best < _LOOSE * total_sd[:, None]).all(axis=1))
    if rare.size:
        some = (centred[rare], weight[rare], n[rare], variance[rare])
        again = _chernoff(*some, outside, _RARE_STEPS / size[rare, None])
        best[rare] = np.fmin(best[rare], again)
    beyond = np.sqrt(2 * outside * variance)
    return np.fmin(best[:, 0], beyond - n * lowest), np.fmin(best[:, 1], beyond + n * largest)


def _chernoff(
    centred: FloatArray,
    weight: FloatArray,
    n: FloatArray,
    variance: FloatArray,
    outside: float,
    slope: FloatArray,
) -> FloatArray:
    """The bound of the sum's reach below and above its mean, (batch, 2): the best of some positive
    slopes, (batch, k).
    """
    there = weight > 0
    ends = [highest(np.where(there, side * centred, -np.inf)) for side in (-1.0, 1.0)]
    top = np.stack(ends, axis=1)[:, :, None] * slope[:, None, :]  # (batch, 2, k)
    signed = np.stack([-slope, slope], axis=1)
    height = np.exp(np.minimum(signed[..., None] * centred[:, None, None] - top[..., None], 1.0))
    log_mean = np.log(np.einsum("bskm,bm->bsk", height, weight)) + top
    bound = n[:, None, None] * log_mean + 0.5 * variance[:, None, None] * signed**2 + outside
    return np.asarray(np.fmin.reduce(bound / slope[:, None, :], axis=2))


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


def power(less_one: ComplexArray, n: FloatArray) -> tuple[FloatArray, FloatArray]:
    """log |phi|^n and n arg(phi), from phi - 1: with full precision at n = 10^12."""
    re, im = less_one.real, less_one.imag
    with np.errstate(divide="ignore"):
        size = 0.5 * n * np.log1p(np.maximum(2 * re + re * re + im * im, -1.0))
    return size, n * np.arctan2(im, 1 + re)
