"""Moments of a record's bounded statistic t^(x): what the normal approximations of the paper are
built from.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from noisewise.errors import UnsupportedCombination
from noisewise.model import autodiff, quadrature
from noisewise.model.arrays import FloatArray
from noisewise.model.bounds import Bounds
from noisewise.model.family import Family, IntervalMoments

GARBAGE = 1e-11
"""Below this share nothing is left of it."""
CANCELLED = 1e-6
"""A closed-form variance below this share of the second moment has lost its digits, and quadrature
takes over.
"""


@dataclass(frozen=True, slots=True)
class BoundedMoments:
    """Of one record: mean and covariance of t(x) and of t^(x), and Cov(t, t^)."""

    mean: FloatArray  # (batch, d)
    covariance: FloatArray  # (batch, d, d)
    bounded_mean: FloatArray  # (batch, d)
    bounded_covariance: FloatArray  # (batch, d, d)
    cross: FloatArray  # (batch, d, d), rows t, columns t^


def interval_moments(
    family: Family, theta: FloatArray, lower: float, upper: float, method: str = "auto"
) -> IntervalMoments:
    """Moments of t(x) given lower <= x <= upper by `method`: closed, autodiff, quadrature, or auto:
    closed where it is accurate.

    `rough` is closed wherever that exists, NaN where it fails: to search with, not to report.
    """
    if method == "autodiff":
        return autodiff.interval_moments(family, theta, lower, upper)
    if method == "quadrature":
        return quadrature.interval_moments(family, theta, lower, upper)
    if method not in ("auto", "closed", "rough"):
        raise UnsupportedCombination(
            f"unknown method {method!r}; use auto, closed, autodiff or quadrature."
        )
    with np.errstate(all="ignore"):  # what cannot be had is NaN, and replaced below
        closed = family.closed_moments(theta, lower, upper)
    if method == "closed":
        if closed is None:
            raise UnsupportedCombination(
                f"the {family.kind} family has no closed form for these moments; use quadrature."
            )
        return closed
    if closed is None:
        return quadrature.interval_moments(family, theta, lower, upper)
    variance = np.einsum("bdd->bd", closed.covariance)
    with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
        share = variance / (variance + closed.mean**2)
    possible = _possible(family, closed.mean, variance, lower, upper)
    if method == "rough":
        closed.mean[~((share > GARBAGE) & possible).all(axis=1)] = np.nan
        return closed
    good = (np.isfinite(closed.log_probability) & ((share > CANCELLED) & possible).all(axis=1))[
        :, None
    ]
    if good.all():
        return closed
    redo = ~good[:, 0]
    again = quadrature.interval_moments(family, theta[redo], lower, upper)
    for name in ("log_probability", "mean", "covariance"):
        getattr(closed, name)[redo] = getattr(again, name)
    return closed


def _possible(
    family: Family, mean: FloatArray, variance: FloatArray, lower: float, upper: float
) -> NDArray[np.bool_]:
    """Whether a statistic within its range over [lower, upper] can have such a mean and variance,
    (batch, d).
    """
    if not np.isfinite(upper - lower):
        return np.isfinite(mean) & np.isfinite(variance)
    with np.errstate(all="ignore"):
        t = np.stack(
            [
                np.asarray(column, dtype=float)
                for column in family.statistic(np.linspace(lower, upper, 129), np)
            ]
        )
        low, high = np.nanmin(t, axis=1), np.nanmax(t, axis=1)
        slack = 1e-9 * (high - low) + 1e-12 * np.maximum(np.abs(low), np.abs(high))
        within = (mean >= low - slack) & (mean <= high + slack)
        return np.asarray(within & (variance <= (high - low) ** 2 / 4 * (1 + 1e-6) + slack**2))


def released_moments(
    family: Family, theta: FloatArray, bounds: Bounds | None, method: str = "auto"
) -> tuple[FloatArray, FloatArray]:
    """Mean (batch, d) and covariance (batch, d, d) of t^(x) alone; needs no moments of t(x) outside
    the bounds.
    """
    if bounds is None:
        return family.mean(theta), family.covariance(theta)
    inside = interval_moments(family, theta, bounds.lower, bounds.upper, method)
    q = np.exp(inside.log_probability)[:, None]
    mean, spread = inside.mean, np.zeros_like(inside.covariance)
    # Centred at the mean inside, so that nothing cancels where nearly all records lie there.
    shift = np.zeros_like(mean)
    masses: list[tuple[FloatArray, FloatArray]] = []
    if bounds.outside == "redact":
        masses.append((1 - q, -mean))
    else:
        (below, low), (above, high) = _below(family, bounds), _above(family, bounds)
        p = family.cdf(np.array([below[1]]), theta) if below is not None else np.zeros_like(q)
        masses.append((p, low - mean))
        masses.append(
            (np.maximum(1 - q - p, 0.0) if above is not None else np.zeros_like(q), high - mean)
        )
    for p, away in masses:
        p = np.clip(p, 0.0, 1.0)
        shift = shift + p * away
        spread = spread + p[:, :, None] * _outer(away, away)
    return mean + shift, q[:, :, None] * inside.covariance + spread - _outer(shift, shift)


def bounded_moments(
    family: Family, theta: FloatArray, bounds: Bounds, method: str = "auto"
) -> BoundedMoments:
    """`redact`: t^(x) = 1[a <= x <= b] t(x). `clamp`: t^(x) = t(clip(x, a, b))."""
    mean, covariance = family.mean(theta), family.covariance(theta)
    inside = interval_moments(family, theta, bounds.lower, bounds.upper, method)
    q = np.exp(inside.log_probability)[:, None]
    first = q * inside.mean  # E t^, and E t 1[inside]
    # E t^ t^', and E t t^'
    second = q[:, :, None] * (inside.covariance + _outer(inside.mean, inside.mean))
    mixed = second
    if bounds.outside == "clamp":
        for tail, value in (_below(family, bounds), _above(family, bounds)):
            if tail is None:
                continue
            moments = interval_moments(family, theta, *tail, method)
            p = np.exp(moments.log_probability)[:, None]
            edge = np.broadcast_to(value, mean.shape)
            tail_mean = np.where(p > 0, moments.mean, 0.0)
            first = first + p * edge
            mixed = mixed + p[:, :, None] * _outer(tail_mean, edge)
            second = second + p[:, :, None] * _outer(edge, edge)
    return BoundedMoments(
        mean, covariance, first, second - _outer(first, first), mixed - _outer(mean, first)
    )


def _below(family: Family, bounds: Bounds) -> tuple[tuple[float, float] | None, FloatArray]:
    """The part of the support below the bounds, and t at the lower bound."""
    edge = np.ceil(bounds.lower) if family.integer else bounds.lower
    tail = (family.support[0], edge - 1 if family.integer else edge)
    return (tail if tail[0] < edge else None), _at(family, edge)


def _above(family: Family, bounds: Bounds) -> tuple[tuple[float, float] | None, FloatArray]:
    edge = np.floor(bounds.upper) if family.integer else bounds.upper
    tail = (edge + 1 if family.integer else edge, family.support[1])
    return (tail if tail[1] > edge else None), _at(family, edge)


def _at(family: Family, x: float) -> FloatArray:
    return np.array([float(column) for column in family.statistic(np.float64(x), np)])


def _outer(a: FloatArray, b: FloatArray) -> FloatArray:
    return a[:, :, None] * b[:, None, :]
