"""The posterior of a normal mean and variance, both unknown.

At the centres of rectangles that are well apart the likelihood is computed without the normal
approximation; what that one lacks is smooth, and interpolated between them.
"""

import numpy as np
from numpy.typing import NDArray
from scipy import interpolate, spatial

from slow.cells import Cells, log_prior, moments, rough_likelihood, split, theta_of
from slow.plane_sums import Setting, log_likelihood
from slow.types import Answer, Array, Marginal, Problem


def two_parameters(problem: Problem) -> Answer:
    setting = Setting.of(problem)
    cells, rough = split(setting)
    order = np.argsort(-rough)
    cells, rough = cells.take(order), rough[order]
    some, exact, enough = _exact_at_some(problem, setting, cells, rough)
    error = 0.0 if enough else 1.0
    known, difference = cells.take(some), exact - rough[some]
    points, weight = _weights(problem, setting, cells, known, difference)
    half = np.arange(len(some)) % 3 > 0
    points_of_half, weight_of_half = _weights(
        problem, setting, cells, known.take(half), difference[half]
    )
    marginals = {}
    for j, name in enumerate(("mean", "variance")):
        marginals[name] = _marginal(points[:, j], weight)
        other = _marginal(points_of_half[:, j], weight_of_half)
        at = marginals[name].theta
        error = max(
            error,
            float(np.abs(np.interp(at, other.theta, other.cdf) - marginals[name].cdf).max()) / 2,
        )
    return Answer(marginals, max(error, _law_error(problem, setting, known, exact)))


def _posterior_at(problem: Problem, setting: Setting, point: Array, fine: bool = False) -> float:
    return float(log_prior(problem, point[None])[0]) + log_likelihood(
        setting, theta_of(point[None])[0], fine
    )


def _components(cells: Cells) -> NDArray[np.int64]:
    """A number for each rectangle, the same for those that overlap, or touch, in their projections
    on both axes.
    """
    label = np.zeros(len(cells.centre), dtype=np.int64)
    for axis in (0, 1, 0):
        fresh, new = 0, np.zeros_like(label)
        for old in np.unique(label):
            which = np.flatnonzero(label == old)
            low = (cells.centre - 0.501 * cells.width)[which, axis]
            high = (cells.centre + 0.501 * cells.width)[which, axis]
            order = np.argsort(low)
            reach = np.maximum.accumulate(high[order])
            gaps = np.concatenate([[0], np.cumsum(low[order][1:] > reach[:-1])])
            new[which[order]] = fresh + gaps
            fresh += int(gaps[-1]) + 1
        label = new
    return label


def _spacing(cells: Cells, rough: Array) -> Array:
    """How far apart the exact likelihood is to be known: a third of an sd of each mode, or a
    rectangle where that is wider.
    """
    spacing = 1.3 * cells.width
    live = np.flatnonzero(rough > rough.max() - 14)
    label = _components(cells.take(live))
    for one in np.unique(label):
        here = live[label == one]
        log = rough[here] + np.log(cells.width[here]).sum(1)
        weight = np.exp(log - log.max())
        mean = np.average(cells.centre[here], axis=0, weights=weight)
        sd = np.sqrt(np.average((cells.centre[here] - mean) ** 2, axis=0, weights=weight))
        spacing[here] = np.maximum(spacing[here], 0.35 * sd)
    return spacing


def _exact_at_some(
    problem: Problem, setting: Setting, cells: Cells, rough: Array
) -> tuple[NDArray[np.int64], Array, bool]:
    """The posterior at rectangles that are well apart: their numbers, its logs, and whether they
    suffice.

    From the best of the approximation downwards, until nothing has mattered for long; False where
    patience ended first.
    """
    area, spacing = np.log(cells.width).sum(1), _spacing(cells, rough)
    some: list[int] = []
    exact: list[float] = []
    centres = np.zeros((0, 2))
    top, idle = -np.inf, 0
    for i in range(len(rough)):
        near = (np.abs(centres - cells.centre[i]) < spacing[i]).all(1) & (
            np.abs(rough[some] - rough[i]) < 1.5
        )
        if near.any():
            continue
        some.append(i)
        centres = cells.centre[some]
        exact.append(_posterior_at(problem, setting, cells.centre[i]))
        top = max(top, exact[-1] + area[i])
        idle = 0 if exact[-1] + area[i] > top - 10 else idle + 1
        if idle > 40 and rough[i] < rough[0] - 9:
            return np.array(some), np.array(exact), True
        if len(some) > 2500:
            return np.array(some), np.array(exact), False
    return np.array(some), np.array(exact), True


def _weights(
    problem: Problem, setting: Setting, cells: Cells, known: Cells, difference: Array
) -> tuple[Array, Array]:
    """Points (mean, variance) with weights: evenly strewn in every rectangle, where the
    approximation is put right.

    What it lacks is smooth, and interpolated from the rectangles at which it is known.
    """
    scale = np.maximum(np.median(known.width, axis=0), 1e-300)
    size = len(difference)
    flat = size < 6 or np.linalg.matrix_rank((known.centre - known.centre[0]) / scale, tol=1e-6) < 2
    smooth = (
        None
        if flat
        else interpolate.RBFInterpolator(known.centre / scale, difference, neighbors=min(24, size))
    )
    tree = spatial.cKDTree(known.centre / scale)

    def logs_at(here: Array) -> Array:
        away, nearest = tree.query(here / scale)
        put_right = difference[nearest]
        if smooth is not None:  # but not far from all that is known, where nothing matters
            put_right = np.where(
                away < 6, np.clip(smooth(here / scale), put_right - 3, put_right + 3), put_right
            )
        rough = rough_likelihood(setting, *moments(problem, here), np.zeros((len(here), 2, 2)))[0]
        return np.asarray(log_prior(problem, here) + rough + put_right)

    area = np.log(cells.width).sum(1)
    mass = logs_at(cells.centre) + area
    heavy = np.flatnonzero(mass > mass.max() - 9)
    rest = mass <= mass.max() - 9
    share = np.exp(mass[heavy] - mass.max())
    each = 16 + np.ceil(25000 * share / share.sum()).astype(int)  # more where the mass is
    # Roberts's two-dimensional golden-ratio sequence, started elsewhere in every rectangle
    steps = np.arange(each.sum())[:, None] * np.array([0.7548776662466927, 0.5698402909980532])
    inner = np.remainder(steps + 0.5, 1.0) - 0.5
    here = np.repeat(cells.centre[heavy], each, 0) + np.repeat(cells.width[heavy], each, 0) * inner
    log = np.concatenate([mass[rest], logs_at(here) + np.repeat(area[heavy] - np.log(each), each)])
    return np.concatenate([theta_of(cells.centre[rest]), theta_of(here)]), np.exp(log - log.max())


def _marginal(value: Array, weight: Array) -> Marginal:
    order = np.argsort(value)
    value, weight = value[order], weight[order]
    edges, inverse = np.unique(value, return_inverse=True)
    mass = np.bincount(inverse, weight)
    mass = mass / mass.sum()
    middle = np.cumsum(mass) - 0.5 * mass
    return Marginal(edges, np.clip(middle, 0, 1))


def _law_error(problem: Problem, setting: Setting, cells: Cells, exact: Array) -> float:
    """What a finer law of the sums would change, from some of the rectangles."""
    mass = exact + np.log(cells.width).sum(1)
    live = np.flatnonzero(mass > mass.max() - 7)
    some = live[:: max(1, len(live) // 12)]
    shift = np.array(
        [_posterior_at(problem, setting, cells.centre[i], fine=True) - exact[i] for i in some]
    )
    return float(np.ptp(shift)) / 4 if len(some) > 1 else 0.0
