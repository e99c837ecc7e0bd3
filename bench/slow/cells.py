"""Rectangles of (mean, log variance) that cover all of a posterior that matters.

They are split wherever it may have mass, judged by a normal approximation widened by how far the
expected statistics move within a rectangle, so that no narrow mode slips through.
"""

import itertools
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import special, stats

from slow.noise import Noise
from slow.plane_records import record_laws
from slow.plane_sums import Setting
from slow.types import Array, Problem

CUSP = 0.5 * np.log(np.pi)
"""log of the density at 0 of Laplace's law over that of a normal law of its variance, and so the
two forms join.
"""


@dataclass(frozen=True)
class Cells:
    """Rectangles of (mean, log variance): centres (B, 2) and full widths (B, 2)."""

    centre: Array
    width: Array

    def take(self, which: Any) -> "Cells":
        return Cells(self.centre[which], self.width[which])


def log_prior(problem: Problem, point: Array) -> Array:
    """Of (mean, log variance), up to a constant."""
    p, (mean, w) = problem["prior"], point.T
    with np.errstate(over="ignore"):
        inverse = np.exp(-w)
        return (
            -0.5 * p["strength"] * (mean - p["mean"]) ** 2 * inverse
            - (p["shape"] + 0.5) * w
            - p["scale"] * inverse
        )


def theta_of(point: Array) -> Array:
    return np.stack([point[:, 0], np.exp(point[:, 1])], 1)


def _first_cells(problem: Problem) -> Cells:
    p = problem["prior"]
    a, b, _ = problem["bounds"]
    q = np.array([1e-11, 1 - 1e-11])
    ends = np.log(p["scale"]) - np.log(np.maximum(stats.gamma.ppf(1 - q, p["shape"]), 1e-300))
    low = min(ends[0], 2 * np.log(b - a) - 16)
    high = max(min(ends[1], 600.0), 2 * np.log(b - a) + 12)
    core = np.linspace(low, min(high, 2 * np.log(b - a) + 14), 60)
    edges = np.unique(np.concatenate([core, np.arange(core[-1], high, 1.0), [high]]))
    centres, widths = [], []
    for bottom, top in itertools.pairwise(edges):
        w = 0.5 * (bottom + top)
        sd = np.exp(0.5 * top)
        reach = 7.5 * sd / np.sqrt(p["strength"])
        left, right = min(a - 10 * sd, p["mean"] - reach), max(b + 10 * sd, p["mean"] + reach)
        marks = [
            np.linspace(left, right, 40),
            np.linspace(a - 3 * sd, b + 3 * sd, 60),
            np.linspace(p["mean"] - reach, p["mean"] + reach, 40),
        ]
        columns = np.unique(np.concatenate(marks))
        columns = columns[np.concatenate([[True], np.diff(columns) > 1e-9 * (right - left)])]
        centres.append(
            np.stack([0.5 * (columns[1:] + columns[:-1]), np.full(len(columns) - 1, w)], 1)
        )
        widths.append(np.stack([np.diff(columns), np.full(len(columns) - 1, top - bottom)], 1))
    return Cells(np.concatenate(centres), np.concatenate(widths))


def moments(problem: Problem, point: Array) -> tuple[Array, Array]:
    """Mean (B, 2) and covariance (B, 2, 2) of one record's contribution."""
    means, covariances = [], []
    for i in range(0, len(point), 500):
        t, p = record_laws(problem, theta_of(point[i : i + 500]), 3)
        m = np.einsum("bm,bmj->bj", p, t)
        d = t - m[:, None]
        means.append(m)
        covariances.append(np.einsum("bm,bmi,bmj->bij", p, d, d))
    return np.concatenate(means), np.concatenate(covariances)


def rough_likelihood(
    setting: Setting, mean: Array, covariance: Array, spread: Array
) -> tuple[Array, Array]:
    """Normal approximation of log p(y), plain, and at its best within a rectangle over which the
    mean has that spread.
    """
    n = setting.n
    noise = np.diag([noise.variance for noise in setting.noises])
    total = n * covariance + noise
    r = setting.y - n * mean
    widened = -0.5 * np.einsum("bi,bij,bj->b", r, np.linalg.inv(total + spread), r)
    log_det = 0.5 * np.log(np.maximum(np.linalg.det(total / np.diag(noise)[:, None]), 1e-300))
    linear = np.zeros(len(r))
    for j, one in enumerate(setting.noises):
        if not one.gaussian:
            reach = np.maximum(np.abs(r[:, j]) - np.sqrt(3 * spread[:, j, j]), 0.0)
            linear -= reach / one.scale
        else:
            linear -= np.inf
    first, second = setting.noises
    v11, v12, v22 = n * covariance[:, 0, 0], n * covariance[:, 0, 1], n * covariance[:, 1, 1]
    share = v12 / (v11 + first.variance)  # of y2 - E y2 that y1 foretells
    plain = _smeared(r[:, 0], v11, first) + _smeared(
        r[:, 1] - share * r[:, 0], np.maximum(v22 - share * v12, 1e-12 * v22), second
    )
    return plain, np.maximum(widened, linear) - log_det


def _smeared(z: Array, variance: Array, noise: Noise) -> Array:
    """log density at z of normal plus noise, relative to that of the noise alone at 0, but for a
    constant.
    """
    total = variance + noise.variance
    normal = -0.5 * z**2 / total - 0.5 * np.log(total / noise.variance)
    if noise.gaussian:
        return normal
    b, sd = noise.scale, np.sqrt(np.maximum(variance, 1e-14 * noise.variance))
    c = sd / b
    sides = np.logaddexp(
        -z / b + special.log_ndtr(z / sd - c), z / b + special.log_ndtr(-z / sd - c)
    )
    return np.where(c < 1e3, 0.5 * c**2 + sides + CUSP, normal)


def _prior_ceiling(problem: Problem, cells: Cells) -> Array:
    """The largest log prior density at the corners, the centre, and where the prior's own mode
    comes nearest.
    """
    p = problem["prior"]
    best = log_prior(problem, cells.centre)
    low, high = cells.centre - cells.width / 2, cells.centre + cells.width / 2
    nearest = np.clip(p["mean"], low[:, 0], high[:, 0])
    top = np.log(
        (p["scale"] + 0.5 * p["strength"] * (nearest - p["mean"]) ** 2) / (p["shape"] + 0.5)
    )
    for w in (low[:, 1], high[:, 1], np.clip(top, low[:, 1], high[:, 1])):
        best = np.maximum(best, log_prior(problem, np.stack([nearest, w], 1)))
    return best


def split(setting: Setting) -> tuple[Cells, Array]:
    """Rectangles within which the posterior changes little, and the normal approximation of its log
    at their centres.
    """
    problem, n = setting.problem, setting.n
    cells = _first_cells(problem)
    done: list[Cells] = []
    done_log: list[Array] = []
    best = -np.inf
    for _ in range(60):
        shift = np.array([[-1, -1], [-1, 1], [1, -1], [1, 1]]) / 4
        points = (cells.centre[:, None] + cells.width[:, None] * shift).reshape(-1, 2)
        mean, covariance = moments(problem, points)
        four = mean.reshape(-1, 4, 2)
        along = [
            0.5 * np.abs(four[:, 2] - four[:, 0] + four[:, 3] - four[:, 1]),
            0.5 * np.abs(four[:, 1] - four[:, 0] + four[:, 3] - four[:, 2]),
        ]
        curved = 0.5 * np.abs(four[:, 3] - four[:, 2] - four[:, 1] + four[:, 0])
        spread = sum(np.einsum("bi,bj->bij", d + curved, d + curved) for d in along) * n**2 / 4
        spread = np.repeat(np.asarray(spread), 4, axis=0)
        children = Cells(points, np.repeat(cells.width / 2, 4, axis=0))
        plain, optimistic = rough_likelihood(setting, mean, covariance, spread)
        log = log_prior(problem, points) + plain
        ceiling = _prior_ceiling(problem, children) + optimistic
        best = max(best, float(log.max()))
        swing = np.repeat(np.ptp(log.reshape(-1, 4), axis=1), 4)
        live = ceiling > best - 30
        still = (swing > 2.0) | (ceiling - log > 5)
        still = still & ~((ceiling < best - 14) & (swing < 3))
        still = still & (children.width > 1e-13 * np.abs(children.centre)).all(1)
        leaves = live & ~still
        done.append(children.take(leaves))
        done_log.append(log[leaves])
        cells = children.take(live & still)
        if len(cells.centre) == 0:
            break
        if len(cells.centre) > 20000:
            cells = cells.take(np.argsort(-ceiling[live & still])[:20000])
    found = Cells(np.concatenate([c.centre for c in done]), np.concatenate([c.width for c in done]))
    return found, np.concatenate(done_log)
