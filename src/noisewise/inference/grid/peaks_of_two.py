"""Where two parameters explain a release: every theta at which both expected sums n E t^ meet y.

As in `peaks_of_one`, now in the plane: a table of E t^ shows the cells through which the line
passes on which one statistic has its released value, and in which of them the other crosses its
own. From each a least-squares search (Levenberg-Marquardt) goes to the nearest theta that explains
y best. At large n each is a peak of its own, about normal, with a width known from the moments.
"""

from dataclasses import dataclass, replace

import numpy as np

from noisewise.inference.problem import Problem
from noisewise.model.arrays import FloatArray, IntArray
from noisewise.model.bounds import Bounds

FIRST = np.sinh(np.linspace(-np.arcsinh(60.0), np.arcsinh(60.0), 161))
"""Of the table: psi1, the location in units of about the bounds' radius or of the record's sd."""
SECOND = np.linspace(-24.0, 24.0, 193)
"""psi2, the log variance, about that of the bounds."""
RATIO_POINTS = 113
"""Of the table along either coordinate, for a family whose parameters move together: about a
quarter of a unit of a logarithm apart.
"""
MOST = 256
"""Cells of a group from which a search begins."""
BEND = 0.25
"""Of the second differences about a cell: within it a statistic leaves the straight line between
two points of the table by an eighth of these, if it is a parabola there.
"""
STEPS = 30
"""Of the search."""
NEAR = 3.0
"""A crossing is looked into if the other statistic comes this close to y there, in sds."""
EXPLAINS = 8.0
"""A theta that leaves y further away than so many sds is no peak worth a patch."""
APART = 3.0
"""Peaks closer than so many of their widths are one."""
REACH = np.array([1.0, 3.0])
"""How far a peak reaches at most: its width, found where it is highest, may be far too large. A box
that begins wider would meet every other peak and resolve none; it may grow.
"""
DIFFERENCE = 1e-6
"""Of the numerical derivative, relative to 1 + |psi|."""


@dataclass(frozen=True, slots=True)
class Peak:
    """A theta that explains y, in psi, and the covariance of the likelihood's peak there."""

    psi: FloatArray  # (2,)
    covariance: FloatArray  # (2, 2)
    log_mass: float = 0.0
    """Of it, about, beside the heaviest."""

    @property
    def widths(self) -> FloatArray:
        """The sds of psi."""
        return np.sqrt(np.diag(self.covariance))


def peaks(problem: Problem) -> list[list[Peak]]:
    """The peaks of each group; none where no theta explains y, or none was found."""
    observations = problem.observations[0]
    if observations.dimension != 2 or observations.bounds is None:
        return [[] for _ in range(problem.groups)]
    table = _Moments(problem, *_places(problem, observations.bounds))
    starts = [table.cells(group) for group in range(problem.groups)]
    group = np.repeat(np.arange(problem.groups), [len(own) for own in starts])
    if not group.size:
        return [[] for _ in starts]
    ends = _search(problem, group, np.concatenate(starts))  # of all groups at once
    out = []
    for g in range(problem.groups):
        found = _distinct(*(part[group == g] for part in ends)) if len(starts[g]) else []
        out.append(_weighed(problem, g, found) if len(found) > 1 else found)
    return out


def _places(problem: Problem, bounds: Bounds) -> tuple[FloatArray, FloatArray]:
    """psi1 and psi2 of the table."""
    if problem.family.ratio:
        ends = problem.family.whereabouts(bounds)
        first, second = (np.linspace(*end, RATIO_POINTS) for end in ends)
        if problem.sheared:
            return first, second
        theta2 = np.exp(second)
        firsts = np.exp(np.linspace(ends[0][0] + ends[1][0], sum(end[1] for end in ends), 97))
        return np.unique(problem.axes[0].psi(firsts)), np.unique(problem.axes[1].psi(theta2))
    first, second = FIRST, SECOND + 2 * np.log(bounds.radius)
    with np.errstate(over="ignore"):
        if not problem.together:
            first = np.unique(problem.axes[0].psi(bounds.middle + bounds.radius * FIRST))
        return first, np.unique(problem.axes[1].psi(np.exp(second)))


def _weighed(problem: Problem, group: int, found: list[Peak]) -> list[Peak]:
    """With their masses: a theta may explain y and be out of the question beforehand."""
    psi = np.stack([peak.psi for peak in found])
    groups = np.full(len(found), group)
    with np.errstate(all="ignore"):
        mass = problem.log_prior(psi, groups) + problem.collapsed(psi, groups)
        mass = mass + np.log(np.minimum([peak.widths for peak in found], REACH)).sum(axis=1)
    mass = np.where(np.isnan(mass), -np.inf, mass)
    top = mass.max() if np.isfinite(mass.max()) else 0.0
    return [replace(peak, log_mass=float(log - top)) for peak, log in zip(found, mass, strict=True)]


class _Moments:
    """A table of E t^ and the sd of t^ over psi1 x psi2, of the first release."""

    def __init__(self, problem: Problem, first: FloatArray, second: FloatArray) -> None:
        self.problem, self.first, self.second = problem, first, second
        grid = np.stack(np.meshgrid(first, second, indexing="ij"), axis=-1)
        self.mean, self.sd = self._at(grid)
        self.bend = np.zeros(self.mean.shape)
        for axis in (0, 1):
            second = np.abs(np.diff(self.mean, 2, axis=axis))
            around = [(1, 1) if k == axis else (0, 0) for k in range(3)]
            self.bend += np.nan_to_num(np.pad(second, around, mode="edge"))

    def _at(self, psi: FloatArray) -> tuple[FloatArray, FloatArray]:
        mean, covariance = self.problem.observations[0].record.moments(
            self.problem.theta(psi.reshape(-1, 2)), "rough"
        )
        sd = np.sqrt(np.maximum(np.einsum("bdd->bd", covariance), 0.0))
        return mean.reshape(psi.shape), sd.reshape(psi.shape)

    def cells(self, group: int) -> FloatArray:
        """Starts in the cells through which a line of one statistic at its released value passes
        while the other crosses its own there, or may do so between the points of the table.
        """
        observations = self.problem.observations[0]
        n = max(float(observations.n[group]), 1.0)
        miss = self.mean - observations.y[group] / n  # (I, J, 2)
        slack = NEAR * (self.sd / np.sqrt(n) + observations.scale[group] / n) + BEND * self.bend
        found, doubt = [], []
        for line in (0, 1):
            at, other, room = _crossings(miss[..., line], miss[..., 1 - line], slack[..., 1 - line])
            with np.errstate(all="ignore"):  # NaN in cells without a crossing
                lowest, highest = np.fmin.reduce(other), np.fmax.reduce(other)
                i, j = np.nonzero((lowest <= room) & (highest >= -room))
                crossings = np.sum(~np.isnan(at), axis=0)
                middle = np.nansum(at, axis=0) / crossings  # (I - 1, J - 1, 2): in cells
                apart = np.maximum(np.maximum(lowest, -highest), 0.0) / room
            found.append(
                np.stack(
                    [
                        self.first[i] + middle[i, j, 0] * np.diff(self.first)[i],
                        self.second[j] + middle[i, j, 1] * np.diff(self.second)[j],
                    ],
                    axis=1,
                )
            )
            doubt.append(apart[i, j])
        # first those that surely cross
        starts, order = np.concatenate(found), np.argsort(np.concatenate(doubt), kind="stable")
        return np.asarray(starts[order[:MOST]])


def _crossings(
    line: FloatArray, other: FloatArray, slack: FloatArray
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Where `line` is 0 on the four edges of each cell, (4, cells, 2) in shares of the cell, NaN
    where it is not; `other` there, (4, cells); and the slack of each cell.
    """
    corner = {
        (a, b): (slice(a, a - 1 or None), slice(b, b - 1 or None)) for a in (0, 1) for b in (0, 1)
    }
    at, value = [], []
    for axis in (0, 1):
        for side in (0, 1):
            start, end = ((0, side), (1, side)) if axis == 0 else ((side, 0), (side, 1))
            f, g = line[corner[start]], line[corner[end]]
            share = np.where(f * g <= 0, f / np.where(f == g, np.nan, f - g), np.nan)
            across = np.where(np.isnan(share), np.nan, float(side))
            at.append(np.stack([share, across] if axis == 0 else [across, share], axis=-1))
            h, k = other[corner[start]], other[corner[end]]
            value.append(h + share * (k - h))
    room = np.fmax.reduce([slack[place] for place in corner.values()])
    return np.stack(at), np.stack(value), room


def _search(
    problem: Problem, group: IntArray, psi: FloatArray
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """From each start to a theta that explains its group's y best: psi, the sum of squares left,
    and the curvature, (starts, 2, 2).
    """
    damping = np.full(len(psi), 1e-2)
    miss, slopes = _residuals(problem, group, psi)
    left = (miss**2).sum(axis=1)
    for _ in range(STEPS):
        curvature = np.einsum("bkj,bki->bji", slopes, slopes)
        pull = np.einsum("bkj,bk->bj", slopes, miss)
        stiff = curvature + damping[:, None, None] * (
            np.eye(2) * np.einsum("bjj->bj", curvature)[:, :, None] + 1e-12 * np.eye(2)
        )
        step = _solve(stiff, pull)
        step = step * np.minimum(
            1.0, 1.0 / np.maximum(np.abs(step).max(axis=1, keepdims=True), 1e-300)
        )
        tried = np.where(np.isfinite(step), psi - step, psi)
        new_miss, new_slopes = _residuals(problem, group, tried)
        new_left = (new_miss**2).sum(axis=1)
        better = new_left < left
        damping = np.where(better, damping / 5, damping * 5)
        if not better.any():
            break
        psi = np.where(better[:, None], tried, psi)
        miss, slopes = (
            np.where(better[:, None], new_miss, miss),
            np.where(better[:, None, None], new_slopes, slopes),
        )
        settled = np.abs(left - new_left) < 1e-6 * (1 + new_left)
        left = np.where(better, new_left, left)
        if (settled | ~better & (damping > 1e6)).all():
            break
    return psi, left, np.einsum("bkj,bki->bji", slopes, slopes)


def _residuals(problem: Problem, group: IntArray, psi: FloatArray) -> tuple[FloatArray, FloatArray]:
    """(n E t^ - y) in sds, of all releases, with their correlation taken out; and its derivative in
    psi.
    """
    values, slopes = [], []
    h = DIFFERENCE * (1 + np.abs(psi))
    points = np.concatenate(
        [psi, *(psi + sign * h * np.eye(2)[j] for j in (0, 1) for sign in (-1, 1))]
    )
    theta = problem.theta(points)
    for observations in problem.observations:
        n = np.maximum(observations.n[group], 0.0)
        # to search with
        mean, covariance = observations.record.moments(
            theta, "rough" if observations.record.rounds else "auto"
        )
        mean = n[:, None] * mean.reshape(5, len(psi), -1)
        mean = np.nan_to_num(mean, nan=1e150, posinf=1e150, neginf=-1e150)
        spread = n[:, None, None] * np.nan_to_num(covariance[: len(psi)])
        k = np.arange(spread.shape[1])
        spread[:, k, k] += 2 * observations.scale[group] ** 2
        root = np.linalg.inv(
            np.linalg.cholesky(
                spread
                + np.eye(spread.shape[1])
                * 1e-12
                * np.trace(spread, axis1=1, axis2=2)[:, None, None]
            )
        )
        values.append(np.einsum("bij,bj->bi", root, mean[0] - observations.y[group]))
        slope = np.stack(
            [(mean[2 + 2 * j] - mean[1 + 2 * j]) / (2 * h[:, j, None]) for j in (0, 1)], axis=-1
        )
        slopes.append(np.einsum("bij,bjk->bik", root, slope))
    return np.concatenate(values, axis=1), np.concatenate(slopes, axis=1)


def _solve(matrix: FloatArray, vector: FloatArray) -> FloatArray:
    """2 x 2 systems by Cramer's rule; not finite where there is no solution."""
    (a, b), (c, d) = ((matrix[:, 0, 0], matrix[:, 0, 1]), (matrix[:, 1, 0], matrix[:, 1, 1]))
    with np.errstate(all="ignore"):
        determinant = a * d - b * c
        return (
            np.stack(
                [d * vector[:, 0] - b * vector[:, 1], a * vector[:, 1] - c * vector[:, 0]], axis=1
            )
            / determinant[:, None]
        )


def _distinct(psi: FloatArray, left: FloatArray, curvature: FloatArray) -> list[Peak]:
    """The best of those that lie within each other's widths."""
    found: list[Peak] = []
    for k in np.argsort(left):
        if not left[k] < EXPLAINS**2 + left.min() or not np.isfinite(psi[k]).all():
            continue
        if any(
            (psi[k] - p.psi) @ np.linalg.pinv(p.covariance) @ (psi[k] - p.psi) < APART**2
            for p in found
        ):
            continue
        determinant = np.linalg.det(curvature[k])
        if not determinant > 1e-20 * np.trace(curvature[k]) ** 2:
            continue
        found.append(Peak(psi[k], np.linalg.inv(curvature[k])))
    return found
