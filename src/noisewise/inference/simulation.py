"""Releases drawn anew from a model: sums of n bounded records given theta, whatever n, and noise on
them.
"""

from collections.abc import Callable

import numpy as np

from noisewise.errors import UnsupportedCombination
from noisewise.inference.observations import Observations
from noisewise.model.arrays import FloatArray, IntArray
from noisewise.model.bounded_statistic import (
    bounded_statistic,
    interval,
    record_law,
)
from noisewise.model.families.bernoulli import Bernoulli
from noisewise.model.moments import interval_moments
from noisewise.model.priors import Prior

FEW = 64
"""So many records are drawn one by one; the sum of more of them inside the bounds is normal but for
its skewness.
"""
SKEWED = 1 << 17
"""The skewness of the sum of more records does not matter."""
WIDE = 1 << 11
"""A family of whole numbers with more of them in the bounds is not summed over them one by one."""
ORDER = 32
"""Quadrature nodes of a record's law: its sum is drawn, not integrated."""
LARGEST = float(1 << 62)
"""No number of records is larger."""
COUNTED = float(1 << 40)
"""Binomial draws among more records are Poisson where few are expected, else normal."""
ENUMERATED = 1 << 14
"""A prior of n below a quarter of this is summed over whole numbers."""
ROUNDS = 64
"""Of drawing noise again that leaves a negative number of records."""


def sums(
    observations: Observations, theta: FloatArray, n: FloatArray, rng: np.random.Generator
) -> FloatArray:
    """The sum of t^(x) over n records at each theta, (batch, d); rows that cannot
    be drawn are NaN.
    """
    if isinstance(observations.family, Bernoulli):
        return binomial(n, theta[:, 0], rng)[:, None]
    if observations.family.statistic_kind == "counts":
        return multinomial(n, theta, rng)
    out = np.full((len(theta), observations.dimension), np.nan)
    few = n <= FEW
    for rows, draw in ((np.flatnonzero(few), _one_by_one), (np.flatnonzero(~few), _together)):
        if rows.size:
            out[rows] = draw(observations, theta[rows], n[rows], rng)
    steps = observations.record.steps
    return out if steps is None else np.round(out / np.array(steps)) * np.array(steps)


def with_noise(
    observations: Observations, theta: FloatArray, n: FloatArray, rng: np.random.Generator
) -> FloatArray:
    """The statistic as released, (batch, d)."""
    return sums(observations, theta, n, rng) + observations.noise().simulate(rng, len(theta))


def given_total(
    total: float, noise: Callable[[int], FloatArray], size: int
) -> tuple[FloatArray, FloatArray]:
    """n and the noise, given their sum: every n from 0 is as likely as any other. Noise has shape
    (size, parts).
    """
    drawn = noise(size)
    for _ in range(ROUNDS):
        short = np.flatnonzero(total - drawn.sum(axis=1) < -0.5)
        if short.size == 0:
            break
        drawn[short] = noise(short.size)
    return np.clip(np.round(total - drawn.sum(axis=1)), 0.0, LARGEST), drawn


def whole_numbers(prior: Prior, rng: np.random.Generator, size: int) -> FloatArray:
    """Draws of n: each whole number has its prior density as weight, which is rounding where they
    are many.
    """
    drawn = prior.draw(rng, 4 * size)[:, 0]
    if drawn.max() > ENUMERATED / 4:
        possible = drawn[drawn > -0.5]
        return np.clip(np.round(rng.choice(possible, size)), 0.0, LARGEST)
    whole = np.arange(float(ENUMERATED))
    log_weight = np.nan_to_num(prior.log_density(np.maximum(whole, 1e-300)[:, None]), nan=-np.inf)
    weight = np.exp(log_weight - log_weight.max())
    return rng.choice(whole, size, p=weight / weight.sum())


def binomial(n: FloatArray, p: FloatArray, rng: np.random.Generator) -> FloatArray:
    """Binomial draws for n up to 2^62, as floats."""
    p = np.clip(np.nan_to_num(p), 0.0, 1.0)
    out = rng.binomial(np.minimum(n, COUNTED).astype(np.int64), p).astype(float)
    rows = np.flatnonzero(n > COUNTED)
    if rows.size:
        n, p = n[rows], p[rows]
        rare = np.minimum(p, 1 - p)
        mean = n * rare
        many = np.round(mean + np.sqrt(mean * (1 - rare)) * rng.standard_normal(rows.size))
        drawn = np.clip(np.where(mean < 1e6, rng.poisson(np.minimum(mean, 1e6)), many), 0.0, n)
        out[rows] = np.where(p <= 0.5, drawn, n - drawn)
    return out


def multinomial(n: FloatArray, p: FloatArray, rng: np.random.Generator) -> FloatArray:
    """Counts of n records in categories of probabilities p, (batch, K), for n up to 2^62."""
    out = np.empty(p.shape)
    left = n.copy()
    rest = np.cumsum(p[:, ::-1], axis=1)[:, ::-1]  # what this category and the later ones have
    for j in range(p.shape[1] - 1):
        out[:, j] = binomial(left, p[:, j] / np.maximum(rest[:, j], 1e-300), rng)
        left = left - out[:, j]
    out[:, -1] = left
    return out


def _one_by_one(
    observations: Observations, theta: FloatArray, n: FloatArray, rng: np.random.Generator
) -> FloatArray:
    try:
        x = records(observations, theta, n, rng)
    except (UnsupportedCombination, ValueError):  # the family has no sampler, or theta is beyond it
        return _together(observations, theta, n, rng)
    return sums_of(observations, x)


def records(
    observations: Observations, theta: FloatArray, n: FloatArray, rng: np.random.Generator
) -> FloatArray:
    """n records at each theta, (batch, largest n), in the units of the release; NaN where a row has
    fewer.
    """
    own, _ = observations.record.units(theta)
    x = observations.family.simulate(rng, own, int(n.max()))
    return np.where(np.arange(x.shape[1]) < n[:, None], x, np.nan)


def sums_of(observations: Observations, x: FloatArray) -> FloatArray:
    """The sum of t^ over the records of each row, (batch, d)."""
    there = ~np.isnan(x)
    value = bounded_statistic(observations.family, observations.record.own_bounds, x)
    if observations.record.steps is not None:
        value = np.floor(value / observations.record.steps + 0.5) * observations.record.steps
    return np.asarray(np.where(there[:, :, None], value, 0.0).sum(axis=1))


def _together(
    observations: Observations, theta: FloatArray, n: FloatArray, rng: np.random.Generator
) -> FloatArray:
    """How many lie inside the bounds and at either of them, then the sum of those inside."""
    family = observations.family
    own, bounds = observations.record.units(theta)
    low, high = interval(family, bounds)
    if family.integer and high - low > WIDE:
        return _normal(observations, theta, n, rng)
    law = record_law(family, own, bounds, ORDER)
    points = law.value
    nodes = law.weight.shape[1] - law.atoms
    value, weight = points[:, :nodes], law.weight[:, :nodes]
    inside = weight.sum(axis=1)
    number = multinomial(n, np.column_stack([inside, law.weight[:, nodes:]]), rng)
    out = np.einsum("ba,bad->bd", number[:, 1:], points[:, nodes:])
    weight = weight / np.maximum(inside, 1e-300)[:, None]
    k = number[:, 0]
    for rows, draw in (
        (np.flatnonzero((k > 0) & (k <= FEW)), _from_nodes),
        (np.flatnonzero(k > FEW), _skewed),
    ):
        if rows.size:
            out[rows] += draw(value[rows], weight[rows], k[rows], rng)
    return np.asarray(out)


def _from_nodes(
    value: FloatArray, weight: FloatArray, k: FloatArray, rng: np.random.Generator
) -> FloatArray:
    """The sum of k draws from weighted points."""
    out = np.zeros((len(k), value.shape[2]))
    below = np.cumsum(weight, axis=1)
    for drawn in range(int(k.max())):
        rows: IntArray = np.flatnonzero(k > drawn)
        u = rng.random(rows.size) * below[rows, -1]
        out[rows] += value[rows, (below[rows] <= u[:, None]).sum(axis=1)]
    return out


def _skewed(
    value: FloatArray, weight: FloatArray, k: FloatArray, rng: np.random.Generator
) -> FloatArray:
    """The sum of many draws from weighted points: normal, and with the first term of Cornish and
    Fisher's expansion.
    """
    mean = np.einsum("bm,bmd->bd", weight, value)
    centred = value - mean[:, None, :]
    covariance = np.einsum("bm,bmd,bme->bde", weight, centred, centred)
    z, sd = standard(covariance, rng)
    third = np.einsum("bm,bmd->bd", weight, centred**3)
    skewness = np.where(sd > 0, third / np.maximum(sd, 1e-300) ** 3, 0.0) / np.sqrt(k)[:, None]
    skewness[k > SKEWED] = 0.0
    return np.asarray(
        k[:, None] * mean + np.sqrt(k)[:, None] * sd * (z + skewness * (z * z - 1) / 6)
    )


def standard(covariance: FloatArray, rng: np.random.Generator) -> tuple[FloatArray, FloatArray]:
    """Standard normal draws with the covariance's correlations, and the standard deviations, each
    (batch, d).
    """
    sd = np.sqrt(np.maximum(np.einsum("bdd->bd", covariance), 0.0))
    z = rng.standard_normal(sd.shape)
    if sd.shape[1] > 1:
        scaled = covariance / np.maximum(sd[:, :, None] * sd[:, None, :], 1e-300)
        bad = ~np.isfinite(scaled).all(axis=(1, 2))
        scaled[bad] = np.eye(sd.shape[1])
        size, direction = np.linalg.eigh(scaled)
        z = np.einsum("bde,be,be->bd", direction, np.sqrt(np.maximum(size, 0.0)), z)
    return z, sd


def _normal(
    observations: Observations, theta: FloatArray, n: FloatArray, rng: np.random.Generator
) -> FloatArray:
    """Whole numbers without end: normal inside the bounds, given how many lie there."""
    family = observations.family
    own, bounds = observations.record.units(theta)
    low, high = interval(family, bounds)
    moments = interval_moments(family, own, low, high)
    inside = np.exp(moments.log_probability)
    below = (
        family.cdf(np.array([low - 1]), own)[:, 0]
        if low > family.support[0]
        else np.zeros(len(own))
    )
    above = np.maximum(1 - inside - below, 0.0) if high < family.support[1] else np.zeros(len(own))
    number = multinomial(n, np.column_stack([inside, below, above]), rng)
    z, sd = standard(moments.covariance, rng)
    k = number[:, :1]
    out = np.where(k > 0, k * moments.mean + np.sqrt(k) * sd * z, 0.0)
    if bounds is not None and bounds.outside == "clamp":
        for j, edge in ((1, low), (2, high)):
            out += number[:, j : j + 1] * np.array(
                [float(t) for t in family.statistic(np.float64(edge), np)]
            )
    return out
