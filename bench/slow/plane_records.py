"""What one record of a normal column contributes to both statistics, (x, x^2) in the coordinates of
the release.
"""

import numpy as np
from scipy import special

from slow.types import Array, Problem


def coordinates(problem: Problem) -> tuple[float, float]:
    """Centre and radius of the release's coordinates, u = (x - centre)/radius."""
    a, b, _ = problem["bounds"]
    return (
        (0.5 * (a + b), 0.5 * (b - a)) if problem["coordinates"] == "standardised" else (0.0, 1.0)
    )


def statistic_ranges(problem: Problem) -> tuple[Array, Array]:
    """The least and the greatest contribution of a record to each statistic."""
    a, b, rule = problem["bounds"]
    centre, radius = coordinates(problem)
    u = (np.array([a, b]) - centre) / radius
    points = np.append(u, 0.0) if rule == "redact" else u
    squares = np.append(points**2, 0.0) if u[0] < 0 < u[1] else points**2
    return np.array([points.min(), squares.min()]), np.array([points.max(), squares.max()])


def is_coarse(problem: Problem) -> bool:
    """Whether records are rounded to steps that matter."""
    if "step" not in problem["noise"]:
        return False
    low, high = statistic_ranges(problem)
    return bool(np.all((high - low) / np.array(problem["noise"]["step"]) <= 4096))


def _breaks(problem: Problem) -> Array:
    """Points of [a, b] that do not depend on theta: graded towards the bounds, or the edges of the
    rounding cells.
    """
    a, b, _ = problem["bounds"]
    width = b - a
    if not is_coarse(problem):
        graded = 2.0 ** -np.arange(1, 31)
        return np.concatenate(
            [[a, b], a + width * graded, b - width * graded, a + width * np.arange(1, 24) / 24]
        )
    centre, radius = coordinates(problem)
    low, high = statistic_ranges(problem)
    h1, h2 = problem["noise"]["step"]
    first = (np.arange(np.floor(low[0] / h1), np.ceil(high[0] / h1) + 2) - 0.5) * h1
    second = np.sqrt(np.maximum((np.arange(0, np.ceil(high[1] / h2) + 2) - 0.5) * h2, 0.0))
    u = np.concatenate([first, second, -second])
    x = centre + radius * u
    return np.concatenate([[a, b], x[(x > a) & (x < b)]])


def record_laws(problem: Problem, theta: Array, nodes: int = 6) -> tuple[Array, Array]:
    """What a record contributes: (B, m, 2) values and (B, m) probabilities, for theta = (mean,
    variance) of shape (B, 2).
    """
    a, b, rule = problem["bounds"]
    mean, sd = theta[:, :1], np.sqrt(theta[:, 1:])
    centre, radius = coordinates(problem)
    fixed = np.broadcast_to(_breaks(problem), (len(theta), _breaks(problem).size))
    if is_coarse(problem):
        edges = np.sort(fixed, 1)
        z = (edges - mean) / sd
        left, right = z[:, :-1], z[:, 1:]
        flip = left + right > 0
        p = np.where(
            flip,
            special.ndtr(-left) - special.ndtr(-right),
            special.ndtr(right) - special.ndtr(left),
        )
        x = 0.5 * (edges[:, :-1] + edges[:, 1:])
    else:
        own = mean + sd * np.concatenate([np.arange(-24, 25, 2.0), np.arange(-9, 10, 2.0)])
        edges = np.sort(np.clip(np.concatenate([fixed, own], 1), a, b), 1)
        g, w = special.roots_legendre(nodes)
        half = np.diff(edges, axis=1)[:, :, None] / 2
        x = (edges[:, :-1, None] + half * (g + 1)).reshape(len(theta), -1)
        z = (x - mean) / sd
        p = (half * w).reshape(len(theta), -1) * np.exp(-0.5 * z * z) / (sd * np.sqrt(2 * np.pi))
    low, high = special.ndtr((a - mean) / sd), special.ndtr((mean - b) / sd)
    if rule == "clamp":
        x = np.concatenate([x, np.broadcast_to([a, b], (len(theta), 2))], 1)
        p = np.concatenate([p, low, high], 1)
    u = (x - centre) / radius
    t = np.stack([u, u * u], -1)
    if is_coarse(problem):
        steps = np.array(problem["noise"]["step"])
        t = steps * np.floor(t / steps + 0.5)
    # a record on a bound is rounded like any other
    elif "step" in problem["noise"] and rule == "clamp":
        steps = np.array(problem["noise"]["step"])
        t[:, -2:] = steps * np.floor(t[:, -2:] / steps + 0.5)
    if rule == "redact":
        t = np.concatenate([t, np.zeros((len(theta), 1, 2))], 1)
        p = np.concatenate([p, low + high], 1)
    return t, p / p.sum(1, keepdims=True)


def record_law(problem: Problem, theta: Array) -> tuple[Array, Array]:
    """The law at one theta: (m, 2) and (m,)."""
    t, p = record_laws(problem, np.asarray(theta)[None])
    return t[0], p[0]
