"""The posterior of one parameter: a scan of its whole range, then the likelihood where it matters.

theta is scanned by splitting every interval in which the expected statistic crosses the released
one, or in which the density may have a top, until nothing moves: a narrow mode is not missed, nor a
second one.
"""

import numpy as np
from numpy.typing import NDArray
from scipy import interpolate

from slow.coordinate import EDGE, Coordinate, coordinate_of
from slow.sums import FINE, FINER, LOW, evaluate, strained
from slow.types import Answer, Array, Marginal, Problem


def start_grid(problem: Problem, coordinate: Coordinate) -> Array:
    low, high = coordinate.core()
    pieces = [np.linspace(low, high, 250)]
    if coordinate.kind == "plain":
        a, b, _ = problem["bounds"]
        sd = np.sqrt(problem["family"]["variance"])
        pieces += [np.linspace(x - 14 * sd, x + 14 * sd, 120) for x in (a, b)]
        middle, width = 0.5 * (a + b), (b - a) + 80 * sd
        pieces += [np.linspace(a, b, 150), np.linspace(middle - width, middle + width, 100)]
        far = max(abs(low - middle), abs(high - middle))
        pieces += [np.linspace(middle - far, middle + far, 100)]
    else:
        pieces += [np.linspace(-EDGE, EDGE, 141), np.linspace(-60, 60, 241)]
        if problem["bounds"] is not None:
            a, b, _ = problem["bounds"]
            scale = np.array([max(abs(x), 1e-3 * (b - a)) for x in (a, b)] + [b - a])
            power = {"log": -1.0, "logit": -1.0}[coordinate.kind]
            if problem["family"]["kind"] == "normal":
                power = 2.0
            if problem["family"]["kind"] == "poisson":
                power = 1.0
            ends = power * np.log(scale) + np.log(problem["family"].get("shape", 1.0))
            pieces += [np.linspace(ends.min() - 9, ends.max() + 9, 400)]
    grid = np.unique(np.concatenate(pieces))
    return grid if coordinate.kind == "plain" else grid[np.abs(grid) <= EDGE]


def _interval_mass(u: Array, log: Array) -> Array:
    top = log.max()
    value = np.exp(np.maximum(log - top, -700))
    mass = np.diff(u) * 0.5 * (value[:-1] + value[1:])
    return mass / mass.sum()


def scan(problem: Problem, coordinate: Coordinate) -> tuple[Array, Array]:
    """A grid of u on which log prior + log likelihood (at low resolution) leaves no top and no
    crossing unresolved.
    """
    u = start_grid(problem, coordinate)
    found = evaluate(problem, u, LOW)
    log, residual = coordinate.log_prior(u) + found.log_likelihood, found.residual
    for level in range(70):
        best = log.max()
        change = np.abs(np.diff(log))
        crossing = np.sign(residual[1:]) != np.sign(residual[:-1])
        higher = np.concatenate([[True], log[1:] >= log[:-1]]) & np.concatenate(
            [log[:-1] >= log[1:], [True]]
        )
        tops = np.flatnonzero(higher)
        higher[:] = False
        higher[tops[np.argsort(-log[tops])[:20]]] = True
        top = higher[1:] | higher[:-1]
        matters = np.maximum(log[1:], log[:-1]) + np.minimum(change, 30) > best - 30
        wide = np.diff(u) > 1e-14 * (np.abs(u[1:]) + np.abs(u[:-1]))
        heavy = _interval_mass(u, log) > 0.006
        split = wide & ((change > 0.5) & (crossing | top | matters) | heavy)
        if not split.any() or len(u) > 12000:
            break
        i = np.flatnonzero(split)
        parts = 4 if level < 40 else 2
        new = np.concatenate([u[i] + (u[i + 1] - u[i]) * k / parts for k in range(1, parts)])
        new = np.setdiff1d(new, u)
        if new.size == 0:
            break
        more = evaluate(problem, new, LOW)
        u, order = np.concatenate([u, new]), None
        log = np.concatenate([log, coordinate.log_prior(new) + more.log_likelihood])
        residual = np.concatenate([residual, more.residual])
        order = np.argsort(u)
        u, log, residual = u[order], log[order], residual[order]
    return u, log


def _distribution(coordinate: Coordinate, u: Array, log: Array) -> tuple[Array, Array]:
    """u on a fine grid and the distribution function there."""
    top = log.max()
    log = np.maximum(log - top, -600.0)
    curve = interpolate.Akima1DInterpolator(u, log, method="makima")
    live = np.maximum(log[1:], log[:-1]) > -40
    parts = np.where(live, 8, 1)
    fine = np.concatenate([np.repeat(u[:-1], parts) + _steps(np.diff(u), parts), u[-1:]])
    value = np.exp(curve(fine))
    mass = np.diff(fine) * 0.5 * (value[:-1] + value[1:])
    left, right = coordinate.slopes()
    before = np.exp(log[0]) / left if left > 0 and coordinate.kind != "plain" else 0.0
    after = np.exp(log[-1]) / right if right > 0 and coordinate.kind != "plain" else 0.0
    cumulative = before + np.concatenate([[0.0], np.cumsum(mass)])
    return fine, cumulative / (cumulative[-1] + after)


def _steps(width: Array, parts: NDArray[np.int64]) -> Array:
    start = np.repeat(np.cumsum(parts) - parts, parts)
    return np.repeat(width / parts, parts) * (np.arange(parts.sum()) - start)


NAMES = {"beta": "probability", "gamma": "rate", "inverse_gamma": "variance", "normal": "mean"}


def one_parameter(problem: Problem) -> Answer:
    coordinate = coordinate_of(problem)
    u, log = scan(problem, coordinate)
    live = log > log.max() - 28
    live = live | np.concatenate([live[1:], [False]]) | np.concatenate([[False], live[:-1]])
    live[[0, -1]] = True
    cut = log.max() - 28
    rough = log.copy()
    log = np.where(live, log, np.minimum(log, cut))
    log[live] = coordinate.log_prior(u[live]) + evaluate(problem, u[live], FINE).log_likelihood
    log[~live] += log[live].max() - rough.max()
    for _ in range(4):
        heavy = np.flatnonzero(_interval_mass(u, log) > 0.009)
        if heavy.size == 0:
            break
        new = 0.5 * (u[heavy] + u[heavy + 1])
        more = coordinate.log_prior(new) + evaluate(problem, new, FINE).log_likelihood
        u, log = np.concatenate([u, new]), np.concatenate([log, more])
        order = np.argsort(u)
        u, log = u[order], log[order]
    fine, cdf = _distribution(coordinate, u, log)
    error = (
        1.0
        if strained(problem, float(u[log.argmax()]))
        else _own_error(problem, coordinate, u, log, fine, cdf)
    )
    theta = coordinate.theta(fine)
    # theta may be rounded to one number where u is not: keep the last of equal ones
    keep = np.concatenate([np.diff(theta) > 0, [True]])
    name = NAMES[problem["prior"]["kind"]]
    return Answer({name: Marginal(theta[keep], cdf[keep])}, error)


def _own_error(
    problem: Problem, coordinate: Coordinate, u: Array, log: Array, fine: Array, cdf: Array
) -> float:
    """Against half of the grid, and against a likelihood of twice the resolution at some of its
    points.
    """
    live = np.flatnonzero(log > log.max() - 12)
    half = np.ones(len(u), dtype=bool)
    half[live[1::2]] = False
    other = _distribution(coordinate, u[half], log[half])
    by_grid = np.abs(np.interp(fine, *other) - cdf).max() / 3
    some = live[:: max(1, len(live) // 40)]
    finer = coordinate.log_prior(u[some]) + evaluate(problem, u[some], FINER).log_likelihood
    shift = finer - log[some]
    moved = log + np.interp(u, u[some], shift) if len(some) > 1 else log + shift
    by_law = np.abs(np.interp(fine, *_distribution(coordinate, u, moved)) - cdf).max()
    return float(max(by_grid, by_law))
