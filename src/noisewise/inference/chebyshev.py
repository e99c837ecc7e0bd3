"""Polynomials through values at Chebyshev points of [-1, 1], by the barycentric formula."""

import numpy as np

from noisewise.model.arrays import FloatArray


def points(count: int) -> FloatArray:
    """The extrema of a Chebyshev polynomial, increasing; every other of 2k + 1 are those of k + 1."""
    return np.cos(np.pi * np.arange(count) / (count - 1))[::-1]


def weights(count: int, at: FloatArray) -> FloatArray:
    """Row i: what the value at each of `count` points weighs in the polynomial at at[i]."""
    sign = (-1.0) ** np.arange(count)
    sign[[0, -1]] /= 2
    away = at[:, None] - points(count)
    hit = np.abs(away) < 1e-14
    share = sign / np.where(hit, 1.0, away)
    table = share / share.sum(axis=1, keepdims=True)
    return np.where(hit.any(axis=1, keepdims=True), hit.astype(float), table)
