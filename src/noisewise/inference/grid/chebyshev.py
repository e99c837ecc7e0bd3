"""Polynomials through values at Chebyshev points of [-1, 1], by the barycentric formula."""

import numpy as np

from noisewise.model.arrays import FloatArray


def points(count: int) -> FloatArray:
    """The extrema of a Chebyshev polynomial, increasing; every other of 2k + 1 are
    those of k + 1.
    """
    return np.cos(np.pi * np.arange(count) / (count - 1))[::-1]


def weights(count: int, at: FloatArray) -> FloatArray:
    """Row i: what the value at each of `count` points weighs in the polynomial at at[i]."""
    sign = (-1.0) ** np.arange(count)
    sign[[0, -1]] /= 2
    away = at[:, None] - points(count)
    away[np.abs(away) < 1e-14] = 1e-14  # at a point itself, its own weight drowns the others
    share = sign / away
    return np.asarray(share / (share @ np.ones((count, 1))))
