"""The unbiased MMD^2 of the paper with the standard normal kernel k(x, y) = exp(-|x - y|^2 / 2).

e^{-|x-y|^2/2} = e^{-|x|^2/2} e^{-|y|^2/2} sum over multi-indices a of x^a y^a / a!, which converges
fast where all points lie near a common centre: sums over pairs become products of sums over points.
Elsewhere pairs are summed block by block.
"""

from itertools import product
from math import factorial, lgamma, log

import numpy as np

from noisewise.model.arrays import FloatArray

BLOCK = 1 << 20
"""Pairs that are held at once."""
DEGREE = 24
"""Of the kernel's expansion, at most."""
ROUNDING = -36.0
"""The log of a term that is below rounding."""
FEATURES = 3000
"""Terms beyond which the kernel is summed over pairs of draws instead."""


def squared(p: FloatArray, q: FloatArray) -> float:
    """MMD^2 between equally many draws p and q, (m, d) or (m,)."""
    p, q = (np.asarray(x, dtype=float).reshape(len(x), -1) for x in (p, q))
    m = len(p)
    if len(q) != m or m < 2:
        raise ValueError(
            f"MMD needs two samples of the same size, at least 2; got {m} and {len(q)}."
        )
    centre = (p.mean(axis=0) + q.mean(axis=0)) / 2
    p, q = p - centre, q - centre
    degree = _degree(max(np.linalg.norm(p, axis=1).max(), np.linalg.norm(q, axis=1).max()))
    indices = _indices(p.shape[1], degree) if degree is not None else []
    if indices and len(indices) <= FEATURES:
        a, b = _features(p, indices), _features(q, indices)
        pp, qq, pq = float(a @ a), float(b @ b), float(a @ b)
    else:
        pp, qq, pq = _pairs(p, p), _pairs(q, q), _pairs(p, q)
    matched = float(np.exp(-0.5 * ((p - q) ** 2).sum(axis=1)).sum())
    return ((pp - m) + (qq - m) - 2 * (pq - matched)) / (m * (m - 1))


def _degree(radius: float) -> int | None:
    """The degree at which radius^2k / k! is below rounding, if there is a low one."""
    if radius == 0:
        return 1
    return next(
        (k for k in range(1, DEGREE) if 2 * k * log(radius) - lgamma(k + 1) < ROUNDING), None
    )


def _indices(d: int, degree: int) -> list[tuple[int, ...]]:
    if (degree + 1) ** d > 100 * FEATURES:
        return []
    return [a for a in product(range(degree + 1), repeat=d) if sum(a) <= degree]


def _features(x: FloatArray, indices: list[tuple[int, ...]]) -> FloatArray:
    """The sum over points of e^{-|x|^2/2} x^a / sqrt(a!), for each multi-index a."""
    powers = x[:, :, None] ** np.arange(max(map(max, indices)) + 1)  # (m, d, degree + 1)
    height = np.exp(-0.5 * (x**2).sum(axis=1))
    out = np.empty(len(indices))
    for j, a in enumerate(indices):
        term = height
        for axis, power in enumerate(a):
            if power:
                term = term * powers[:, axis, power]
        out[j] = term.sum() / np.sqrt(float(np.prod([factorial(k) for k in a])))
    return out


def _pairs(p: FloatArray, q: FloatArray) -> float:
    """The kernel summed over all pairs, a block of rows at a time."""
    rows, total = max(1, BLOCK // len(q)), 0.0
    for start in range(0, len(p), rows):
        distance = ((p[start : start + rows, None, :] - q[None, :, :]) ** 2).sum(axis=2)
        total += float(np.exp(-0.5 * distance).sum())
    return total
