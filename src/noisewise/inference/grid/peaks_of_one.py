"""Where one parameter explains a release: every theta at which the expected sum n E t^ meets y.

Under `redact` E t^ is no monotone function of theta, since a population that lies mostly outside
the bounds has a small sum too, and at large n the likelihood is a few peaks far narrower than any
first grid. The moments are cheap, so a table of E t^ over the whole range of theta, fine enough to
show its shape, finds them all.
"""

from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from noisewise.inference.grid.coordinates import Axis
from noisewise.inference.observations import Observations
from noisewise.inference.problem import Problem
from noisewise.model.arrays import FloatArray, IntArray
from noisewise.model.bounded_statistic import BoundedRecord

FIRST_POINTS = 257
"""Of the table, spread over the whole range of psi; it is refined where E t^ changes."""
SMOOTH = 0.02
"""E t^ may change by this share of its range from one point of the table to the next."""
ROUNDS, MOST = 12, 4096
"""Of refining the table, and its points at most."""
STEPS = 40
"""Of closing in on a crossing; each halves at least its bracket or its miss."""
CLOSE = 0.02
"""A crossing is found when the miss is this share of the sum's and the noise's spread."""
LADDER = np.array([0.0, 0.4, 1.0, 2.0, 4.0, 8.0, 16.0, 40.0, 120.0])
"""Points about a peak, in its widths: from these the grid refines itself."""
MARGIN = np.linspace(-12, 12, 49)
"""A location parameter is looked at so many sds of a record about either bound."""


@dataclass(frozen=True, slots=True)
class _Table:
    """E t^ and Var t^ of one record over psi, increasing."""

    psi: FloatArray
    mean: FloatArray
    variance: FloatArray


def starts(problem: Problem, psi: FloatArray) -> list[FloatArray]:
    """The first grid of each group, psi of shape (groups, points), with points about every peak
    that it might miss.
    """
    peaks: list[list[FloatArray]] = [[] for _ in psi]
    for observations in problem.observations:
        if observations.dimension == 1 and observations.bounds is not None:
            _gather(observations, problem.axes[0], psi, peaks)
    low, high = problem.axes[0].range
    return [
        row if not extra else np.unique(np.clip(np.concatenate([row, *extra]), low, high))
        for row, extra in zip(psi, peaks, strict=True)
    ]


def _gather(
    observations: Observations, axis: Axis, psi: FloatArray, peaks: list[list[FloatArray]]
) -> None:
    table = _tabulate(observations.record, axis, float(psi.min()), float(psi.max()))
    for n in _numbers_of_records(observations):
        target = np.divide(observations.y[:, 0], n, out=np.full(n.shape, np.nan), where=n > 0)
        group, left = _brackets(table, target)
        several = np.bincount(group, minlength=len(psi)) > 1
        group, left = group[several[group]], left[several[group]]
        if group.size == 0:
            continue
        at, slope = _crossings(observations, axis, table, group, left, target[group])
        spread = (
            np.sqrt(n[group] * np.interp(at, table.psi, table.variance))
            + observations.scale[group, 0]
        )
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            width = np.minimum(spread / (n[group] * np.abs(slope)), 1.0)
        width = np.where(np.isfinite(width), width, 1.0)
        for g, centre, w in zip(group, at, width, strict=True):
            peaks[g].append(np.concatenate([centre - w * LADDER, centre + w * LADDER]))


def _numbers_of_records(observations: Observations) -> list[FloatArray]:
    """n, or where it is not public some that the noisy count allows."""
    if observations.count is None:
        return [observations.n]
    return [
        np.maximum(observations.count.value + k * observations.count.scale, 1.0)
        for k in (-2.0, 0.0, 2.0)
    ]


@lru_cache(maxsize=64)
def _tabulate(record: BoundedRecord, axis: Axis, low: float, high: float) -> _Table:
    """It depends on no release, and serves every call that asks the same."""
    at = np.linspace(low, high, FIRST_POINTS)
    if np.isinf(axis.lower) and np.isinf(axis.upper):
        at = np.unique(np.concatenate([at, np.clip(_about_bounds(record), low, high)]))
    mean, variance = _moments(record, axis, at)
    for _ in range(ROUNDS):
        known = mean[np.isfinite(mean)]
        span = np.ptp(known) if known.size else 0.0
        change = np.abs(np.diff(mean))
        turns = np.zeros(change.size, dtype=bool)
        turns[1:-1] = (np.diff(mean)[:-2] * np.diff(mean)[2:] < 0) & (change[1:-1] > 1e-9 * span)
        rough = np.flatnonzero(
            ((change > SMOOTH * span) | turns) & (np.diff(at) > 1e-9 * (1 + np.abs(at[1:])))
        )
        if rough.size == 0 or at.size + rough.size > MOST:
            break
        middle = (at[rough] + at[rough + 1]) / 2
        more = _moments(record, axis, middle)
        at, mean, variance = (
            np.insert(old, rough + 1, new)
            for old, new in zip((at, mean, variance), (middle, *more), strict=True)
        )
    return _Table(at, mean, variance)


def _about_bounds(record: BoundedRecord) -> FloatArray:
    """Locations at which records fall within the bounds, or just outside."""
    bounds = record.bounds
    assert bounds is not None
    width = bounds.upper - bounds.lower
    inside = np.linspace(bounds.lower - 3 * width, bounds.upper + 3 * width, 197)
    variance = record.family.covariance(np.array([[bounds.middle]]))[0, 0, 0]
    sd = float(np.sqrt(np.abs(variance)))
    return np.concatenate([inside, bounds.lower + sd * MARGIN, bounds.upper + sd * MARGIN])


def _moments(record: BoundedRecord, axis: Axis, psi: FloatArray) -> tuple[FloatArray, FloatArray]:
    theta = axis.theta(psi)[:, None]
    # to search with; what is rounded coarsely has other moments
    mean, covariance = record.moments(theta, "auto" if record.rounds else "rough")
    lost = np.flatnonzero(~np.isfinite(mean[:, 0]))
    if lost.size:
        mean[lost], covariance[lost] = record.moments(theta[lost])
    return mean[:, 0], np.maximum(np.nan_to_num(covariance[:, 0, 0]), 0.0)


def _brackets(table: _Table, target: FloatArray) -> tuple[IntArray, IntArray]:
    """The cells of the table in which E t^ crosses the target, or turns back next to
    it, by group.
    """
    miss = table.mean[None, :] - target[:, None]  # (groups, points)
    with np.errstate(invalid="ignore"):
        crosses = miss[:, :-1] * miss[:, 1:] <= 0
        size = np.abs(miss)
        turns = (size[:, 1:-1] <= size[:, :-2]) & (size[:, 1:-1] < size[:, 2:])
    crosses[:, 1:] |= turns & ~crosses[:, :-1] & ~crosses[:, 1:]
    group, left = np.nonzero(crosses)
    return group, left


def _crossings(
    observations: Observations,
    axis: Axis,
    table: _Table,
    group: IntArray,
    left: IntArray,
    target: FloatArray,
) -> tuple[FloatArray, FloatArray]:
    """Where in its cell the mean meets the target, by regula falsi (Illinois), and the mean's slope
    there.
    """
    a, b = table.psi[left].copy(), table.psi[left + 1].copy()
    fa, fb = table.mean[left] - target, table.mean[left + 1] - target
    slope = (fb - fa) / (b - a)
    at = np.where(fa == fb, a, (a * fb - b * fa) / np.where(fa == fb, 1.0, fb - fa))
    going = np.flatnonzero((fa * fb < 0) & np.isfinite(at))
    at = np.where((fa * fb < 0) & np.isfinite(at), at, np.where(np.abs(fa) < np.abs(fb), a, b))
    n = np.maximum(observations.n[group], 1.0)
    for step in range(STEPS):
        if going.size == 0:
            break
        mean, variance = _moments(observations.record, axis, at[going])
        f = mean - target[going]
        near = np.abs(f) * n[going] < CLOSE * (
            np.sqrt(n[going] * variance) + observations.scale[group[going], 0]
        )
        right = f * fb[going] > 0
        moved = np.where(right, b[going] - at[going], at[going] - a[going])
        with np.errstate(divide="ignore", invalid="ignore"):
            local = np.where(right, fb[going] - f, f - fa[going]) / moved
        slope[going] = np.where(np.isfinite(local) & (local != 0), local, slope[going])
        # The end that stays is believed half as much, so that both ends move.
        fa[going], fb[going] = np.where(right, fa[going] / 2, f), np.where(right, f, fb[going] / 2)
        a[going], b[going] = (
            np.where(right, a[going], at[going]),
            np.where(right, at[going], b[going]),
        )
        going = going[~near & np.isfinite(f)]
        aim = (a[going] * fb[going] - b[going] * fa[going]) / (fb[going] - fa[going])
        at[going] = aim if step % 3 else (a[going] + b[going]) / 2
    return at, slope
