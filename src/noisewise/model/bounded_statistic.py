"""One record's bounded statistic t^(x): its law as weighted points, and its moments.

`redact`: t^(x) = t(x) inside the bounds and 0 outside. `clamp`: t^(x) = t(x clipped to the bounds).
Everything that is said of t^, by releases and by inference, is said here.
"""

from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from noisewise.model import quadrature
from noisewise.model.arrays import FloatArray, IntArray
from noisewise.model.bounds import Bounds
from noisewise.model.family import Family
from noisewise.model.moments import interval_moments

LATTICE_CELLS = 4096
"""Records are rounded to their lattice here too if it has at most this many points; a finer one is
no different from none.
"""
LAWS = 1 << 10
"""Thetas whose rounded laws are held at once."""
PIECES = 1 << 15
"""Where a rounded statistic changes is looked for in so many parts of the bounds."""
CANCELLED = 1e-9
"""A difference of two values of the CDF that is smaller has too few digits left."""
NOTHING = -100.0
"""The log of a probability that no number of records brings back."""
_UNIT, _UNIT_WEIGHT = np.polynomial.legendre.leggauss(16)


@dataclass(frozen=True, slots=True)
class Law:
    """t^ is value[:, j] with probability weight[:, j]; the last `atoms` columns are point masses,
    the others quadrature nodes.
    """

    value: FloatArray  # (batch, m, d)
    weight: FloatArray  # (batch, m), sums to 1
    atoms: int

    def take(self, rows: "IntArray | slice") -> "Law":
        """Some of the batch."""
        return Law(self.value[rows], self.weight[rows], self.atoms)


@dataclass(frozen=True, slots=True)
class BoundedMoments:
    """Of one record: mean and covariance of t(x) and of t^(x), and Cov(t, t^)."""

    mean: FloatArray  # (batch, d)
    covariance: FloatArray  # (batch, d, d)
    bounded_mean: FloatArray  # (batch, d)
    bounded_covariance: FloatArray  # (batch, d, d)
    cross: FloatArray  # (batch, d, d), rows t, columns t^


def interval(family: Family, bounds: Bounds | None) -> tuple[float, float]:
    """The least and the greatest value inside the bounds, or of the family."""
    low, high = family.support if bounds is None else (bounds.lower, bounds.upper)
    return (float(np.ceil(low)), float(np.floor(high))) if family.integer else (low, high)


def bounded_statistic(family: Family, bounds: Bounds | None, x: FloatArray) -> FloatArray:
    """t^(x), on a last axis of d."""
    low, high = interval(family, bounds)
    value = family.statistics(np.clip(x, low, high))
    if bounds is not None and bounds.outside == "redact":
        value = np.where(((x >= low) & (x <= high))[..., None], value, 0.0)
    return value


def record_law(family: Family, theta: FloatArray, bounds: Bounds | None, order: int = 32) -> Law:
    """The law of t^(x) at each theta, with `order` nodes on either side of the density's peak, or
    every whole number.
    """
    low, high = interval(family, bounds)
    at = quadrature.nodes(family, theta, low, high, *(() if bounds is None else (order,)))
    weight, value = np.exp(at.log_weight), family.statistics(at.x)
    if bounds is None:  # a family that is bounded by itself
        return Law(value, weight / weight.sum(axis=1, keepdims=True), 0)
    masses = _beyond(family, theta, bounds, weight.sum(axis=1))
    points = _atoms(family.statistics(np.array([low, high])), bounds)
    value = np.concatenate([value, np.broadcast_to(points, (len(theta), *points.shape))], axis=1)
    weight = np.concatenate([weight, np.stack(masses, axis=1)], axis=1)
    return Law(value, weight / weight.sum(axis=1, keepdims=True), len(masses))


def _atoms(at_bounds: FloatArray, bounds: Bounds) -> FloatArray:
    """Where the records outside the bounds are put, (atoms, d), given t at either bound."""
    return np.zeros((1, at_bounds.shape[1])) if bounds.outside == "redact" else at_bounds


def _beyond(
    family: Family, theta: FloatArray, bounds: Bounds, inside: FloatArray
) -> list[FloatArray]:
    """The mass of each of these atoms."""
    if bounds.outside == "redact":
        return [np.maximum(1 - inside, 0.0)]
    low, high = interval(family, bounds)
    nothing = np.zeros(len(theta))
    edge = np.array([low - 1 if family.integer else low])
    below = family.cdf(edge, theta)[:, 0] if low > family.support[0] else nothing
    above = np.maximum(1 - inside - below, 0.0) if high < family.support[1] else nothing
    return [below, above]


def on_lattice(law: Law, steps: FloatArray) -> Law:
    """The law of whole numbers in units of the steps; all of it is point masses."""
    return Law(law.value / steps, law.weight, law.value.shape[1])


def rounded_law(family: Family, theta: FloatArray, bounds: Bounds, steps: FloatArray) -> Law:
    """The law of t^(x) rounded to a coarse lattice, in steps: the probability of each lattice
    point, all point masses.
    """
    edges, value = _pieces(family, bounds.lower, bounds.upper, tuple(steps))
    weight = _probabilities(family, theta, edges)
    masses = _beyond(family, theta, bounds, weight.sum(axis=1))
    points = _atoms(value[[0, -1]], bounds)
    every = np.concatenate([value, points])
    weight = np.concatenate([weight, np.stack(masses, axis=1)], axis=1)
    return Law(
        np.broadcast_to(every, (len(theta), *every.shape)),
        weight / weight.sum(axis=1, keepdims=True),
        len(every),
    )


@lru_cache(maxsize=32)
def _pieces(
    family: Family, lower: float, upper: float, steps: tuple[float, ...]
) -> tuple[FloatArray, FloatArray]:
    """The intervals of x on which the rounded statistics are constant: their ends, and the
    statistics in steps, (pieces, d).
    """

    def rounded(x: FloatArray) -> FloatArray:
        with np.errstate(all="ignore"):
            columns = [
                np.asarray(t, dtype=float) / step
                for t, step in zip(family.statistic(x, np), steps, strict=True)
            ]
        return np.stack(
            [np.floor(np.where(np.isfinite(t), t, 0.0) + 0.5) for t in columns], axis=-1
        )

    at = np.linspace(lower, upper, PIECES + 1)
    edges, values = [np.array([lower])], [rounded(at[:1])]
    left, value = at[:-1], rounded(at[:-1])
    target = rounded(at[1:])
    right = at[1:]
    ends, kept = [], []
    for _ in range(8):  # a cell may hold several steps, one after the other
        differ = (value != target).any(axis=1)
        left, right, value, target = left[differ], right[differ], value[differ], target[differ]
        if left.size == 0:
            break
        low, high = left, right
        for _ in range(60):
            middle = (low + high) / 2
            same = (rounded(middle) == value).all(axis=1)
            low, high = np.where(same, middle, low), np.where(same, high, middle)
        ends.append(high)
        kept.append(rounded(high))
        left, value = high, kept[-1]
    if ends:
        found, of = np.concatenate(ends), np.concatenate(kept)
        order = np.argsort(found)
        edges, values = [*edges, found[order]], [*values, of[order]]
    return np.concatenate([*edges, [upper]]), np.concatenate(values)


def _probabilities(family: Family, theta: FloatArray, edges: FloatArray) -> FloatArray:
    """P(edge < x <= next edge), (batch, pieces): differences of the CDF, or where these have lost
    their digits an integral.
    """
    with np.errstate(all="ignore"):
        weight = np.maximum(np.diff(family.cdf(edges, theta), axis=1), 0.0)
        log_density = family.log_density(edges, theta)
        at_ends = np.maximum(log_density[:, :-1], log_density[:, 1:]) + np.log(np.diff(edges))
        row, piece = np.nonzero((weight < CANCELLED) & ~(at_ends < NOTHING))
        half = np.diff(edges)[piece, None] / 2
        density = np.exp(family.log_density(edges[piece, None] + half * (1 + _UNIT), theta[row]))
        weight[row, piece] = np.minimum(
            np.nan_to_num(density @ _UNIT_WEIGHT * half[:, 0]), CANCELLED
        )
        weight[at_ends < NOTHING] = 0.0
    return np.nan_to_num(weight)


def released_moments(
    family: Family, theta: FloatArray, bounds: Bounds | None, method: str = "auto"
) -> tuple[FloatArray, FloatArray]:
    """Mean (batch, d) and covariance (batch, d, d) of t^(x) alone; needs no moments of t(x) outside
    the bounds.
    """
    if bounds is None:
        return family.mean(theta), family.covariance(theta)
    inside = interval_moments(family, theta, bounds.lower, bounds.upper, method, NOTHING)
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
    return (tail if tail[0] < edge else None), family.statistics(edge)


def _above(family: Family, bounds: Bounds) -> tuple[tuple[float, float] | None, FloatArray]:
    edge = np.floor(bounds.upper) if family.integer else bounds.upper
    tail = (edge + 1 if family.integer else edge, family.support[1])
    return (tail if tail[1] > edge else None), family.statistics(edge)


def shares_beyond(family: Family, theta: FloatArray, bounds: Bounds) -> FloatArray:
    """P(x below the bounds) and P(x above them), (batch, 2); 0 where the family has no values."""
    (below, _), (above, _) = _below(family, bounds), _above(family, bounds)
    out = np.zeros((len(theta), 2))
    if below is not None:
        out[:, 0] = family.cdf(np.array([below[1]]), theta)[:, 0]
    if above is not None:
        last = above[0] - 1 if family.integer else above[0]
        out[:, 1] = 1 - family.cdf(np.array([last]), theta)[:, 0]
    return out


def _outer(a: FloatArray, b: FloatArray) -> FloatArray:
    return a[:, :, None] * b[:, None, :]


@dataclass(frozen=True)
class BoundedRecord:
    """One record's t^ as it is released: of which family, within which bounds, in which coordinates
    and on which lattice.
    """

    family: Family
    bounds: Bounds | None
    standardised: bool = False
    steps: tuple[float, ...] | None = None
    """The spacing of statistics that must be taken as a lattice; None if that is too fine to
    matter.
    """
    all_within: bool = False
    """Whether no record is taken to lie beyond the bounds, whatever the family says: of moments
    alone.
    """

    @property
    def rounds(self) -> bool:
        """Whether its statistic is rounded to a lattice so coarse that it matters."""
        return self.steps is not None and not self.family.integer

    @property
    def own_bounds(self) -> Bounds | None:
        """The bounds in the coordinates of the release."""
        if self.bounds is None or not self.standardised:
            return self.bounds
        return Bounds(-1, 1, outside=self.bounds.outside)

    def units(self, theta: FloatArray) -> tuple[FloatArray, Bounds | None]:
        """theta and bounds in the coordinates of the release."""
        if not self.standardised:
            return theta, self.bounds
        assert self.bounds is not None
        return self.family.standardise(theta, self.bounds), self.own_bounds

    def moments(self, theta: FloatArray, method: str = "auto") -> tuple[FloatArray, FloatArray]:
        """Mean (batch, d) and covariance (batch, d, d); `rough` is to search with."""
        # thetas far out, where nothing is representable: NaN counts as impossible
        with np.errstate(all="ignore"):
            own, bounds = self.units(theta)
            if self.all_within or not self.rounds or method == "rough":
                bounds = None if self.all_within else bounds
                return released_moments(self.family, own, bounds, method)
            parts = range(0, len(theta), LAWS)
            found = [self._rounded_moments(theta[start : start + LAWS]) for start in parts]
            means, covariances = zip(*found, strict=True)
            return np.concatenate(means), np.concatenate(covariances)

    def _rounded_moments(self, theta: FloatArray) -> tuple[FloatArray, FloatArray]:
        law = self.law(theta)
        value = law.value * np.array(self.steps)
        mean = np.einsum("bm,bmd->bd", law.weight, value)
        away = value - mean[:, None, :]
        return mean, np.einsum("bm,bmd,bme->bde", law.weight, away, away)

    def law(self, theta: FloatArray, order: int = 32) -> Law:
        """Its law, in steps where it is on a lattice."""
        own, bounds = self.units(theta)
        if self.steps is None:
            return record_law(self.family, own, bounds, order)
        if self.rounds:
            assert bounds is not None
            return rounded_law(self.family, own, bounds, np.array(self.steps))
        return on_lattice(record_law(self.family, own, bounds, order), np.array(self.steps))
