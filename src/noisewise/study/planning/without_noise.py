"""Posteriors that see every record without noise, and without bounds: what privacy costs is
measured from their widths.
"""

from collections.abc import Callable, Sequence

import numpy as np
from scipy import stats

from noisewise.inference.grid.coordinates import Axis
from noisewise.inference.quantities import of_draws
from noisewise.model.arrays import FloatArray
from noisewise.model.family import Family
from noisewise.model.priors import Dirichlet, Prior

ROUNDS = 6
"""Of finding where the posterior lies and how wide it is."""
POINTS = {1: (61, 401), 2: (31, 141)}
"""Along each axis of one parameter, and of two: while searching, and at last."""
TURN = 0.5
"""Radians by which a grid of two parameters is turned, so that no two points share a value."""
REACH, LAST_REACH = 6.0, 8.0
"""Standard deviations to either side, while searching and at last."""


def widths(
    family: Family,
    prior: Prior,
    sums: FloatArray,
    n: int,
    theta: FloatArray,
    names: Sequence[str],
    level: float,
) -> FloatArray:
    """Of the central intervals, (trials, names), given sums of t(x) over all n records, (trials,
    d); theta, (trials, p), is where to look.
    """
    if family.statistic_kind == "counts":
        assert isinstance(prior, Dirichlet)
        return widths_of_counts(np.asarray(prior.concentration, dtype=float) + sums, level)
    axes = [Axis.of(one) for one in family.parameters]

    def log_density(psi: FloatArray) -> FloatArray:  # (trials, points, p) -> (trials, points)
        flat = psi.reshape(-1, psi.shape[-1])
        at = _theta(axes, flat)
        eta = family.natural(at).reshape(*psi.shape[:2], -1)
        log = (eta * sums[:, None, :]).sum(-1) - n * family.log_partition(eta)
        slope = sum(axis.log_jacobian(flat[:, j]) for j, axis in enumerate(axes))
        own = prior.log_density(at) + slope
        return np.asarray(log + own.reshape(psi.shape[:2]))

    start = np.stack([axis.psi(theta[:, j]) for j, axis in enumerate(axes)], axis=1)
    with np.errstate(all="ignore"):
        psi, weight = _laid(log_density, start, _first_spread(family, axes, theta, start, n))
    value = [axis.theta(psi[..., j]) for j, axis in enumerate(axes)]
    derived = {one.name: one for one in family.derived}
    own = {one.name: j for j, one in enumerate(family.parameters)}
    out = [
        _width(
            value[own[name]] if name in own else of_draws(derived[name], family.parameters, value),
            weight,
            level,
        )
        for name in names
    ]
    return np.stack(out, axis=1)


def widths_of_counts(concentration: FloatArray, level: float) -> FloatArray:
    """Of the central intervals of each probability, as the concentrations of a Dirichlet."""
    rest = concentration.sum(axis=-1, keepdims=True) - concentration
    low, high = (stats.beta.ppf(q, concentration, rest) for q in ((1 - level) / 2, (1 + level) / 2))
    return np.asarray(high - low)


def _theta(axes: Sequence[Axis], psi: FloatArray) -> FloatArray:
    return np.stack([axis.theta(psi[..., j]) for j, axis in enumerate(axes)], axis=-1)


def _first_spread(
    family: Family, axes: Sequence[Axis], theta: FloatArray, psi: FloatArray, n: int
) -> FloatArray:
    """The inverse of Fisher's information of n records about psi, (trials, p, p)."""
    h = 1e-5
    slope = np.stack(
        [
            (
                family.natural(_theta(axes, psi + h * unit))
                - family.natural(_theta(axes, psi - h * unit))
            )
            / (2 * h)
            for unit in np.eye(len(axes))
        ],
        axis=1,
    )  # (trials, p, d)
    information = n * slope @ family.covariance(theta) @ slope.transpose(0, 2, 1)
    return np.asarray(np.linalg.inv(information))


def _laid(
    log_density: Callable[[FloatArray], FloatArray], centre: FloatArray, covariance: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """A grid about each posterior, (trials, points, p), and the weights of its points: laid by
    their mean and covariance on the grid before, again and again.
    """
    p = centre.shape[1]
    cos, sin = np.cos(TURN), np.sin(TURN)
    turn = np.array([[cos, -sin], [sin, cos]]) if p > 1 else np.eye(1)
    for round_ in range(ROUNDS + 1):
        last = round_ == ROUNDS
        many, reach = POINTS[p][last], LAST_REACH if last else REACH
        line = np.linspace(-reach, reach, many)
        steps = np.stack(np.meshgrid(*[line] * p, indexing="ij"), axis=-1).reshape(-1, p)
        root = np.linalg.cholesky(covariance) @ turn
        psi = centre[:, None, :] + steps @ root.transpose(0, 2, 1)
        log = log_density(psi)
        log = np.where(np.isfinite(log), log, -np.inf)
        weight = np.exp(log - log.max(axis=1, keepdims=True))
        weight /= weight.sum(axis=1, keepdims=True)
        centre = (weight[..., None] * psi).sum(axis=1)
        away = psi - centre[:, None, :]
        spread = np.einsum("tk,tki,tkj->tij", weight, away, away)
        least = (line[1] - line[0]) ** 2 / 9  # no narrower than the grid can tell
        covariance = spread + least * covariance
    return psi, weight


def _width(values: FloatArray, weight: FloatArray, level: float) -> FloatArray:
    """Of weighted points, (trials, points), each standing for half of its weight on either side."""
    order = np.argsort(values, axis=1)
    at = np.take_along_axis(values, order, axis=1)
    own = np.take_along_axis(weight, order, axis=1)
    below = np.cumsum(own, axis=1) - own / 2
    ends = [
        [float(np.interp(q, b, x)) for q in ((1 - level) / 2, (1 + level) / 2)]
        for b, x in zip(below, at, strict=True)
    ]
    return np.diff(np.array(ends), axis=1)[:, 0]
