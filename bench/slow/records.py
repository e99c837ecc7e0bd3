"""What one record contributes to a statistic, as values with probabilities: every family, rule and
lattice.
"""

from dataclasses import dataclass

import numpy as np
from scipy import special

from slow.types import Array, Problem

COARSE = 4096
"""A lattice with at most this many steps over a record's range is summed point by point; a finer
one is as good as none.
"""


@dataclass(frozen=True)
class Law:
    """What one record contributes at each of B parameters: values t with probabilities p, both (B,
    m), on a step or on none.
    """

    t: Array
    p: Array
    step: float | None


def record_law(problem: Problem, u: Array, nodes: int = 12) -> Law:
    family, bounds = problem["family"]["kind"], problem["bounds"]
    if family == "bernoulli":
        p = np.stack([special.expit(-u), special.expit(u)], -1)
        return Law(np.broadcast_to([0.0, 1.0], p.shape), p, 1.0)
    a, b, rule = bounds
    if family in ("poisson", "geometric"):
        return _whole_law(family, u, int(np.ceil(a)), int(np.floor(b)), rule)
    step = problem["noise"]["step"][0] if problem["noise"].get("step") else None
    return _real_law(problem, u, a, b, rule, step, nodes)


def _whole_law(family: str, u: Array, low: int, high: int, rule: str) -> Law:
    k = np.arange(low, high + 1, dtype=float)
    column = u[:, None]
    if family == "poisson":
        rate = np.exp(np.minimum(column, 650.0))
        p = np.exp(special.xlogy(k, rate) - rate - special.gammaln(k + 1))
        below = special.pdtr(low - 1, rate) if low > 0 else np.zeros_like(rate)
        above = special.pdtrc(high, rate)
    else:
        log_not = -np.logaddexp(0, column)
        p = np.exp((k - 1) * log_not) * special.expit(column)
        below, above = -np.expm1((low - 1) * log_not), np.exp(high * log_not)
    t = k
    if rule == "clamp":
        p[:, :1] += below
        p[:, -1:] += above
    else:
        t = np.append(k, 0.0)
        p = np.concatenate([p, below + above], 1)
    return Law(np.broadcast_to(t, p.shape), p / p.sum(1, keepdims=True), 1.0)


def _mass(problem: Problem, u: Array, low: Array, high: Array) -> Array:
    """P(low < x <= high), as a difference in the lighter tail."""
    family = problem["family"]
    high = np.maximum(high, low)
    if family["kind"] == "normal":
        mean, sd = normal_parameters(problem, u)
        za, zb = (low - mean[:, None]) / sd[:, None], (high - mean[:, None]) / sd[:, None]
        flip = za + zb > 0
        return np.where(
            flip, special.ndtr(-za) - special.ndtr(-zb), special.ndtr(zb) - special.ndtr(za)
        )
    k, rate = family.get("shape", 1.0), np.exp(np.minimum(u, 650.0))[:, None]
    ra, rb = rate * np.maximum(low, 0.0), rate * np.maximum(high, 0.0)
    from_below = special.gammainc(k, rb) - special.gammainc(k, ra)
    from_above = special.gammaincc(k, ra) - special.gammaincc(k, rb)
    return np.where(ra > k, from_above, from_below)


def normal_parameters(problem: Problem, u: Array) -> tuple[Array, Array]:
    family = problem["family"]
    if family["unknown"] == "mean":
        return u, np.full(u.shape, np.sqrt(family["variance"]))
    return np.full(u.shape, family["mean"]), np.exp(0.5 * u)


def _density(problem: Problem, u: Array, x: Array) -> Array:
    family = problem["family"]
    with np.errstate(over="ignore", divide="ignore", under="ignore", invalid="ignore"):
        if family["kind"] == "normal":
            mean, sd = normal_parameters(problem, u)
            z = (x - mean[:, None]) / sd[:, None]
            return np.exp(-0.5 * z * z) / (sd[:, None] * np.sqrt(2 * np.pi))
        k = family.get("shape", 1.0)
        rate = np.exp(np.minimum(u, 650.0))[:, None]
        log = special.xlogy(k - 1, x) + k * u[:, None] - rate * x - special.gammaln(k)
        return np.exp(np.where(x > 0, log, -np.inf))


def statistic_of(problem: Problem, x: Array) -> Array:
    centre = problem["family"].get("mean") if problem["family"]["kind"] == "normal" else None
    return x if centre is None else (x - centre) ** 2


def statistic_range(problem: Problem) -> tuple[float, float]:
    """The least and the greatest contribution of one record."""
    if problem["bounds"] is None:
        return 0.0, 1.0
    a, b, rule = problem["bounds"]
    ends = [float(statistic_of(problem, np.float64(x))) for x in (a, b)]
    centre = problem["family"].get("mean") if problem["family"]["kind"] == "normal" else None
    if rule == "redact" or (centre is not None and a < centre < b):
        ends.append(0.0)
    return min(ends), max(ends)


def _real_law(
    problem: Problem, u: Array, a: float, b: float, rule: str, step: float | None, nodes: int
) -> Law:
    infinite = np.full((1, 1), np.inf)
    below = _mass(problem, u, -infinite, np.full((1, 1), a))
    above = _mass(problem, u, np.full((1, 1), b), infinite)
    low, high = statistic_range(problem)
    if step is not None and (high - low) / step <= COARSE:
        t, p = _lattice_cells(problem, u, a, b, step, low, high)
    else:
        t, p = _panel_nodes(
            problem, u, a, b, nodes, _mass(problem, u, np.full((1, 1), a), np.full((1, 1), b))
        )
    ends = statistic_of(problem, np.array([a, b]))
    if step is not None:  # a record on a bound is rounded like any other
        ends = step * np.floor(ends / step + 0.5)
    if rule == "clamp":
        extra_t, extra_p = ends, np.concatenate([below, above], 1)
    else:
        extra_t, extra_p = np.zeros(1), below + above
    t = np.concatenate([np.broadcast_to(t, p.shape), np.broadcast_to(extra_t, extra_p.shape)], 1)
    p = np.concatenate([p, extra_p], 1)
    exact = step if step is not None and (high - low) / step <= COARSE else None
    return Law(t, p / p.sum(1, keepdims=True), exact)


def _lattice_cells(
    problem: Problem, u: Array, a: float, b: float, step: float, low: float, high: float
) -> tuple[Array, Array]:
    """Probabilities of a <= x <= b and t(x) rounding to k, from differences of the distribution
    function.
    """
    k = np.arange(np.floor(low / step + 0.5), np.floor(high / step + 0.5) + 1)
    left, right = (k - 0.5) * step, (k + 0.5) * step
    centre = problem["family"].get("mean") if problem["family"]["kind"] == "normal" else None
    if centre is None:
        return k * step, _mass(problem, u, np.clip(left, a, b)[None], np.clip(right, a, b)[None])
    inner, outer = np.sqrt(np.maximum(left, 0)), np.sqrt(np.maximum(right, 0))
    up = _mass(problem, u, np.clip(centre + inner, a, b)[None], np.clip(centre + outer, a, b)[None])
    down = _mass(
        problem, u, np.clip(centre - outer, a, b)[None], np.clip(centre - inner, a, b)[None]
    )
    return k * step, up + down


def _panel_nodes(
    problem: Problem, u: Array, a: float, b: float, nodes: int, inside: Array
) -> tuple[Array, Array]:
    """Gauss-Legendre nodes on panels graded towards both bounds and, for the normal, around its
    mean.
    """
    width = b - a
    graded = np.concatenate(
        [
            a + width * 2.0 ** -np.arange(61),
            b - width * 2.0 ** -np.arange(2, 31),
            a + width * np.arange(17) / 16,
            [a],
        ]
    )
    breaks = np.broadcast_to(graded, (len(u), graded.size))
    if problem["family"]["kind"] == "normal":
        mean, sd = normal_parameters(problem, u)
        breaks = np.concatenate(
            [breaks[:, 30:], mean[:, None] + sd[:, None] * np.arange(-20, 21)], 1
        )
        extra = a + width * 2.0 ** -np.arange(31)
        breaks = np.concatenate([breaks, np.broadcast_to(extra, (len(u), extra.size))], 1)
        if problem["family"].get("mean") is not None:
            about = problem["family"]["mean"] + width * np.concatenate(
                [2.0 ** -np.arange(1, 25), -(2.0 ** -np.arange(1, 25))]
            )
            breaks = np.concatenate([breaks, np.broadcast_to(about, (len(u), about.size))], 1)
    breaks = np.sort(np.clip(breaks, a, b), 1)
    x, w = special.roots_legendre(nodes)
    half = np.diff(breaks, axis=1)[:, :, None] / 2
    points = (breaks[:, :-1, None] + half * (x + 1)).reshape(len(u), -1)
    weights = (half * w).reshape(len(u), -1)
    p = weights * _density(problem, u, points)
    # what lies below the first panel, however steep the density is there
    if problem["family"]["kind"] != "normal":
        first = (
            breaks[:, 1:2]
            if breaks[0, 0] < breaks[0, 1]
            else np.full((len(u), 1), a + width * 2.0**-60)
        )
        lowest = _mass(problem, u, np.full((1, 1), a), first)
        p[points <= first] = 0.0
        points, p = np.concatenate([points, (a + first) / 2], 1), np.concatenate([p, lowest], 1)
    total = p.sum(1, keepdims=True)
    with np.errstate(divide="ignore", invalid="ignore"):
        p = np.where(total > 0, p * (inside / total), 0.0)
    # narrower than the panels can tell: all of it at its mean
    if problem["family"]["kind"] == "normal":
        mean, _ = normal_parameters(problem, u)
        lost = np.flatnonzero((total[:, 0] <= 0) & (inside[:, 0] > 0))
        p[lost, np.abs(points[lost] - mean[lost, None]).argmin(1)] = inside[lost, 0]
    return statistic_of(problem, points), p
