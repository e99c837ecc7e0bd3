"""The posterior of a normal mean and variance, both unknown, by slow integration: the second half of slow_posterior.py.

theta = (mean, log variance) is covered by rectangles that are split wherever the posterior may have mass, judged by a normal
approximation widened by how far the expected statistics move within a rectangle, so that no narrow mode slips through. At the
centre of every rectangle that is left the likelihood is computed without that approximation: the characteristic function of
the two sums from nodes of one record, tilted to the saddle point, its Fourier series on a window, and the noise integrated
against it; or, for few records, on a lattice.
"""

import itertools
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import interpolate, spatial, special, stats
from slow_posterior import Answer, Array, Marginal, Noise, Problem

MANY = 60.0
"""With more records than this within the bounds the law of the sums is smooth."""


# ------------------------------------------------------------------------------------------------------- records


def coordinates(problem: Problem) -> tuple[float, float]:
    """Centre and radius of the release's coordinates, u = (x - centre)/radius."""
    a, b, _ = problem["bounds"]
    return (0.5 * (a + b), 0.5 * (b - a)) if problem["coordinates"] == "standardised" else (0.0, 1.0)


def statistic_ranges(problem: Problem) -> tuple[Array, Array]:
    """The least and the greatest contribution of a record to each statistic."""
    a, b, rule = problem["bounds"]
    centre, radius = coordinates(problem)
    u = (np.array([a, b]) - centre) / radius
    points = np.append(u, 0.0) if rule == "redact" else u
    squares = np.append(points**2, 0.0) if u[0] < 0 < u[1] else points**2
    return np.array([points.min(), squares.min()]), np.array([points.max(), squares.max()])


def _is_coarse(problem: Problem) -> bool:
    """Whether records are rounded to steps that matter."""
    if "step" not in problem["noise"]:
        return False
    low, high = statistic_ranges(problem)
    return bool(np.all((high - low) / np.array(problem["noise"]["step"]) <= 4096))


def _breaks(problem: Problem) -> Array:
    """Points of [a, b] that do not depend on theta: graded towards the bounds, or the edges of the rounding cells."""
    a, b, _ = problem["bounds"]
    width = b - a
    if not _is_coarse(problem):
        graded = 2.0 ** -np.arange(1, 31)
        return np.concatenate([[a, b], a + width * graded, b - width * graded, a + width * np.arange(1, 24) / 24])
    centre, radius = coordinates(problem)
    low, high = statistic_ranges(problem)
    h1, h2 = problem["noise"]["step"]
    first = (np.arange(np.floor(low[0] / h1), np.ceil(high[0] / h1) + 2) - 0.5) * h1
    second = np.sqrt(np.maximum((np.arange(0, np.ceil(high[1] / h2) + 2) - 0.5) * h2, 0.0))
    u = np.concatenate([first, second, -second])
    x = centre + radius * u
    return np.concatenate([[a, b], x[(x > a) & (x < b)]])


def record_laws(problem: Problem, theta: Array, nodes: int = 6) -> tuple[Array, Array]:
    """What a record contributes: (B, m, 2) values and (B, m) probabilities, for theta = (mean, variance) of shape (B, 2)."""
    a, b, rule = problem["bounds"]
    mean, sd = theta[:, :1], np.sqrt(theta[:, 1:])
    centre, radius = coordinates(problem)
    fixed = np.broadcast_to(_breaks(problem), (len(theta), _breaks(problem).size))
    if _is_coarse(problem):
        edges = np.sort(fixed, 1)
        z = (edges - mean) / sd
        left, right = z[:, :-1], z[:, 1:]
        flip = left + right > 0
        p = np.where(flip, special.ndtr(-left) - special.ndtr(-right), special.ndtr(right) - special.ndtr(left))
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
    if _is_coarse(problem):
        steps = np.array(problem["noise"]["step"])
        t = steps * np.floor(t / steps + 0.5)
    elif "step" in problem["noise"] and rule == "clamp":  # a record on a bound is rounded like any other
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


# ---------------------------------------------------------------------------------------------------- likelihood


@dataclass(frozen=True)
class Setting:
    problem: Problem
    n: int
    y: Array
    noises: tuple[Noise, Noise]

    @classmethod
    def of(cls, problem: Problem) -> "Setting":
        noises = (Noise.of(problem["noise"], 0), Noise.of(problem["noise"], 1))
        return cls(problem, problem["n"], np.array(problem["statistic"]), noises)


def log_likelihood(setting: Setting, theta: Array, fine: bool = False) -> float:
    """log p(y | theta), up to one constant."""
    t, p = (array[0] for array in record_laws(setting.problem, theta[None], 10 if fine else 6))
    keep = p > 1e-200
    t, p = t[keep], p[keep]
    tilt = _tilt(setting, t, p)
    exponent = (t - setting.y / setting.n) @ tilt
    top = exponent.max()
    q = p * np.exp(exponent - top)
    log_m = top + np.log(q.sum())
    q /= q.sum()
    keep = q > 1e-20
    t, q = t[keep], q[keep]
    heavy = np.sort(q)[-2:].sum() if setting.problem["bounds"][2] == "clamp" else q.max()
    inside = setting.n * (1 - heavy) if not _is_coarse(setting.problem) else setting.n * (1 - q.max())
    value = _series(setting, t, q, tilt, fine) if inside > MANY else _lattice(setting, t, q, tilt, fine)
    return setting.n * log_m + value


def _tilt(setting: Setting, t: Array, p: Array) -> Array:
    """The saddle point: least of n K(lambda) - lambda y + (noise) over the lambda that the noise allows, by Newton's method."""
    n, y = setting.n, setting.y
    quadratic = np.array([noise.scale**2 if noise.gaussian else 0.0 for noise in setting.noises])
    limit = np.array([np.inf if noise.gaussian else 1 / noise.scale for noise in setting.noises])
    centred = t - y / n

    def at(value: Array) -> tuple[float, Array, Array]:
        exponent = centred @ value
        top = exponent.max()
        q = p * np.exp(exponent - top)
        total = q.sum()
        q = q / total
        m = q @ centred
        v = (centred - m).T @ (q[:, None] * (centred - m))
        objective = n * (top + np.log(total)) + 0.5 * float(quadratic @ value**2)
        return objective, n * m + quadratic * value, n * v + np.diag(quadratic)

    value = np.zeros(2)
    objective, gradient, hessian = at(value)
    for _ in range(100):
        ridge = hessian + 1e-12 * np.diag(np.diag(hessian)) + 1e-300 * np.eye(2)
        fixed = (np.abs(value) >= limit * (1 - 1e-12)) & (value * gradient < 0)
        free = ~fixed
        if not free.any():
            break
        step = np.zeros(2)
        step[free] = -np.linalg.solve(ridge[np.ix_(free, free)], gradient[free])
        if 0.5 * -float(gradient @ step) < 0.05:
            break
        scale = 1.0
        for _ in range(50):
            trial = np.clip(value + scale * step, -limit, limit)
            found = at(trial)
            if found[0] < objective - 1e-4 * scale * 0.05:
                break
            scale /= 2
        else:
            break
        value, (objective, gradient, hessian) = trial, found
    return value


GAUSS = special.roots_legendre(6)
CUSP = 0.5 * np.log(np.pi)
"""log of the density at 0 of Laplace's law over that of a normal law of its variance, and so the two forms join."""


def _panels(y: float, noise: Noise, tilt: float, centre: Array, sd: float, half: float) -> tuple[Array, Array]:
    """Nodes and weights in s, a row for each centre, for the noise at y - s against a density of width sd on centre +- half."""
    low, high = (centre - half)[:, None], (centre + half)[:, None]
    if noise.gaussian:
        own = y - noise.scale**2 * tilt + noise.scale * np.arange(-9, 10, 1.5)
    else:
        steps = noise.scale * np.concatenate([[0.0], 2.0 ** np.arange(-1, 60)])
        steps = steps[: int(np.searchsorted(steps, sd)) + 2]
        own = np.concatenate([y - steps, y + steps])
    across = centre[:, None] + half * np.linspace(-1, 1, 13)
    breaks = np.sort(np.clip(np.concatenate([across, np.broadcast_to(own, (len(centre), own.size))], 1), low, high), 1)
    width = np.diff(breaks, axis=1)[:, :, None] / 2
    nodes = (breaks[:, :-1, None] + width * (GAUSS[0] + 1)).reshape(len(centre), -1)
    return nodes, (width * GAUSS[1]).reshape(len(centre), -1)


def _series(setting: Setting, t: Array, q: Array, tilt: Array, fine: bool) -> float:
    """The noise against the Fourier series of the density of (s1, s2 - beta s1), which is smooth."""
    n, y, (first, second) = setting.n, setting.y, setting.noises
    mean = q @ t
    d1 = t[:, 0] - mean[0]
    beta = float(q @ (d1 * (t[:, 1] - mean[1]))) / max(float(q @ d1**2), 1e-300)
    d2 = (t[:, 1] - mean[1]) - beta * d1
    sd = np.sqrt(n * np.array([q @ d1**2, q @ d2**2]))
    sd = np.maximum(sd, 1e-9 * np.array([first.scale, second.scale]) + 1e-300)
    half = (15.0 if fine else 12.0) * sd
    size = 24
    while True:
        w1, w2 = (np.pi * np.arange(-size, size + 1) / half[0], np.pi * np.arange(0, size + 1) / half[1])
        a, b = np.exp(-1j * np.outer(w1, d1)), np.exp(-1j * np.outer(w2, d2))
        z = np.log((a * q) @ b.T) if n < 10**7 else _precise(q, d1, d2, w1, w2)
        with np.errstate(under="ignore"):
            law = np.exp(n * z)
        edge = max(np.abs(law[0]).max(), np.abs(law[-1]).max(), np.abs(law[:, -1]).max())
        if edge < 1e-7 or size >= 192:
            break
        size *= 2
    s1, weight1 = (array[0] for array in _panels(y[0], first, tilt[0], np.array([n * mean[0]]), sd[0], half[0]))
    log_w1 = first.log_weight(y[0] - s1) + tilt[0] * (y[0] - s1)
    ceiling1 = log_w1.max()
    live = (log_w1 > ceiling1 - 40) & (weight1 > 0)
    s1, weight1 = s1[live], weight1[live] * np.exp(log_w1[live] - ceiling1)
    offset = s1 - n * mean[0]
    rows = np.exp(1j * np.outer(offset, w1)) @ law  # (I, K2), Fourier series of the density along s2' at each s1
    points = 1024
    padded = np.zeros((len(s1), points // 2 + 1), dtype=complex)
    padded[:, : size + 1] = rows * np.exp(-1j * w2 * half[1])  # the window starts at -half
    density = np.fft.irfft(padded, points, axis=1) * points / (4 * half[0] * half[1])
    centre = n * mean[1] + beta * offset
    s2, weight2 = _panels(y[1], second, tilt[1], centre, sd[1], half[1])
    values = _cubic(density, (s2 - centre[:, None] + half[1]) / (2 * half[1]) * points)
    ceiling2 = 0.5 * (second.scale * tilt[1]) ** 2 if second.gaussian else 0.0
    log_w2 = second.log_weight(y[1] - s2) + tilt[1] * (y[1] - s2) - ceiling2
    out = float(weight1 @ (weight2 * values * np.exp(np.minimum(log_w2, 0.0))).sum(1))
    return float(ceiling1 + ceiling2 + np.log(max(out, 1e-290)))


def _precise(q: Array, d1: Array, d2: Array, w1: Array, w2: Array) -> NDArray[np.complex128]:
    """log of the characteristic function where it differs from 1 by less than n floats can tell: its cumulants."""
    out = np.zeros((len(w1), len(w2)), dtype=complex)
    a, b = -1j * w1[:, None], -1j * w2[None, :]
    moment: dict[tuple[int, int], float] = {}
    for i in range(5):
        for j in range(5 - i):
            moment[i, j] = float(q @ (d1**i * d2**j))
    series = np.zeros_like(out)
    factorial = [1, 1, 2, 6, 24]
    for (i, j), value in moment.items():
        if i + j >= 2:
            series += value * a**i * b**j / (factorial[i] * factorial[j])
    out = series - 0.5 * series**2
    return np.where(out.real > 0, -1.0, out)


def _cubic(rows: Array, place: Array) -> Array:
    """Lagrange's cubic through the four points about each place of each row; rows are periodic."""
    k = np.floor(place).astype(int)
    f = place - k
    v = [np.take_along_axis(rows, (k + j) % rows.shape[1], 1) for j in (-1, 0, 1, 2)]
    return (
        -v[0] * f * (f - 1) * (f - 2) / 6 + v[1] * (f + 1) * (f - 1) * (f - 2) / 2
        - v[2] * (f + 1) * f * (f - 2) / 2 + v[3] * (f + 1) * f * (f - 1) / 6
    )  # fmt: skip


def _lattice(setting: Setting, t: Array, q: Array, tilt: Array, fine: bool) -> float:
    """Few records: both statistics on lattices, the law of their sums by the n-th power of the transform."""
    n, y = setting.n, setting.y
    heavy = t[int(q.argmax())]
    coarse = _is_coarse(setting.problem)
    live = n * q > 1e-13
    points, h, pivot = [], [], []
    for j in range(2):
        mean = float(q @ t[:, j])
        sd = float(np.sqrt(q @ (t[:, j] - mean) ** 2))
        reach = 2 * min(12 * np.sqrt(n) * sd + 14 * np.abs(t[live, j] - heavy[j]).max(), n * np.ptp(t[live, j])) + 1e-9
        step = setting.problem["noise"]["step"][j] if coarse else 0.0
        if coarse and reach / step < 1500:
            points.append(1 << int(np.ceil(np.log2(reach / step + 4))))
            h.append(step)
        else:
            size = 128 if not fine else 256
            while reach / size > setting.noises[j].scale / (6 if not fine else 12) and size < (1024 if not fine else 2048):
                size *= 2
            points.append(size)
            h.append(reach / (size - 8))
        pivot.append(float(heavy[j]))
    change = np.zeros(points[0] * points[1])
    shares = [_shares((t[:, j] - pivot[j]) / h[j]) for j in range(2)]
    for i, first in enumerate(shares[0][1]):
        for k, second in enumerate(shares[1][1]):
            row = (shares[0][0] + i - 2) % points[0]
            column = (shares[1][0] + k - 2) % points[1]
            change += np.bincount(row * points[1] + column, q * first * second, change.size)
    change[0] -= 1.0
    grid = np.fft.rfft2(change.reshape(points))
    with np.errstate(divide="ignore", invalid="ignore", under="ignore"):
        power = np.exp(n * np.nan_to_num(np.log1p(grid), nan=-1e3, neginf=-1e3))
    masses = np.fft.irfft2(power, points)
    logs = []
    for j in range(2):
        middle = int(np.rint(n * (q @ t[:, j] - pivot[j]) / h[j])) - points[j] // 2
        whole = middle + np.arange(points[j])
        total = n * pivot[j] + whole * h[j]
        masses = np.take(masses, whole % points[j], axis=j)
        logs.append(setting.noises[j].log_weight(y[j] - total) + tilt[j] * (y[j] - total))
    value = np.exp(logs[0] - logs[0].max()) @ masses @ np.exp(logs[1] - logs[1].max())
    return float(logs[0].max() + logs[1].max() + np.log(max(value, 1e-16 * masses.max())))


def _shares(f: Array) -> tuple[NDArray[np.int64], list[Array]]:
    """Lattice index of a value and its five Lagrange weights, at offsets -2..2."""
    k = np.rint(f)
    f = f - k
    f2 = f * f
    weights = [
        f * (f2 - 1) * (f - 2) / 24, f * (f - 1) * (4 - f2) / 6, 1 + f2 * (f2 - 5) / 4, f * (f + 1) * (4 - f2) / 6,
        f * (f2 - 1) * (f + 2) / 24,
    ]  # fmt: skip
    return k.astype(np.int64), weights


# ------------------------------------------------------------------------------------------------- the rectangles


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
        return -0.5 * p["strength"] * (mean - p["mean"]) ** 2 * inverse - (p["shape"] + 0.5) * w - p["scale"] * inverse


def _theta(point: Array) -> Array:
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
        centres.append(np.stack([0.5 * (columns[1:] + columns[:-1]), np.full(len(columns) - 1, w)], 1))
        widths.append(np.stack([np.diff(columns), np.full(len(columns) - 1, top - bottom)], 1))
    return Cells(np.concatenate(centres), np.concatenate(widths))


def _moments(problem: Problem, point: Array) -> tuple[Array, Array]:
    """Mean (B, 2) and covariance (B, 2, 2) of one record's contribution."""
    means, covariances = [], []
    for i in range(0, len(point), 500):
        t, p = record_laws(problem, _theta(point[i : i + 500]), 3)
        m = np.einsum("bm,bmj->bj", p, t)
        d = t - m[:, None]
        means.append(m)
        covariances.append(np.einsum("bm,bmi,bmj->bij", p, d, d))
    return np.concatenate(means), np.concatenate(covariances)


def _rough(setting: Setting, mean: Array, covariance: Array, spread: Array) -> tuple[Array, Array]:
    """Normal approximation of log p(y), plain, and at its best within a rectangle over which the mean has that spread."""
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
    plain = _smeared(r[:, 0], v11, first) + _smeared(r[:, 1] - share * r[:, 0], np.maximum(v22 - share * v12, 1e-12 * v22), second)
    return plain, np.maximum(widened, linear) - log_det


def _smeared(z: Array, variance: Array, noise: Noise) -> Array:
    """log density at z of normal plus noise, relative to that of the noise alone at 0, but for a constant."""
    total = variance + noise.variance
    normal = -0.5 * z**2 / total - 0.5 * np.log(total / noise.variance)
    if noise.gaussian:
        return normal
    b, sd = noise.scale, np.sqrt(np.maximum(variance, 1e-14 * noise.variance))
    c = sd / b
    sides = np.logaddexp(-z / b + special.log_ndtr(z / sd - c), z / b + special.log_ndtr(-z / sd - c))
    return np.where(c < 1e3, 0.5 * c**2 + sides + CUSP, normal)


def _prior_ceiling(problem: Problem, cells: Cells) -> Array:
    """The largest log prior density at the corners, the centre, and where the prior's own mode comes nearest."""
    p = problem["prior"]
    best = log_prior(problem, cells.centre)
    low, high = cells.centre - cells.width / 2, cells.centre + cells.width / 2
    nearest = np.clip(p["mean"], low[:, 0], high[:, 0])
    top = np.log((p["scale"] + 0.5 * p["strength"] * (nearest - p["mean"]) ** 2) / (p["shape"] + 0.5))
    for w in (low[:, 1], high[:, 1], np.clip(top, low[:, 1], high[:, 1])):
        best = np.maximum(best, log_prior(problem, np.stack([nearest, w], 1)))
    return best


def _split(setting: Setting) -> tuple[Cells, Array]:
    """Rectangles within which the posterior changes little, and the normal approximation of its log at their centres."""
    problem, n = setting.problem, setting.n
    cells = _first_cells(problem)
    done: list[Cells] = []
    done_log: list[Array] = []
    best = -np.inf
    for _ in range(60):
        shift = np.array([[-1, -1], [-1, 1], [1, -1], [1, 1]]) / 4
        points = (cells.centre[:, None] + cells.width[:, None] * shift).reshape(-1, 2)
        mean, covariance = _moments(problem, points)
        four = mean.reshape(-1, 4, 2)
        along = [
            0.5 * np.abs(four[:, 2] - four[:, 0] + four[:, 3] - four[:, 1]),
            0.5 * np.abs(four[:, 1] - four[:, 0] + four[:, 3] - four[:, 2]),
        ]
        curved = 0.5 * np.abs(four[:, 3] - four[:, 2] - four[:, 1] + four[:, 0])
        spread = sum(np.einsum("bi,bj->bij", d + curved, d + curved) for d in along) * n**2 / 4
        spread = np.repeat(np.asarray(spread), 4, axis=0)
        children = Cells(points, np.repeat(cells.width / 2, 4, axis=0))
        plain, optimistic = _rough(setting, mean, covariance, spread)
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


# -------------------------------------------------------------------------------------------------- the posterior


def two_parameters(problem: Problem) -> Answer:
    setting = Setting.of(problem)
    cells, rough = _split(setting)
    order = np.argsort(-rough)
    cells, rough = cells.take(order), rough[order]
    some, exact, enough = _exact_at_some(problem, setting, cells, rough)
    error = 0.0 if enough else 1.0
    known, difference = cells.take(some), exact - rough[some]
    points, weight = _weights(problem, setting, cells, known, difference)
    half = np.arange(len(some)) % 3 > 0
    points_of_half, weight_of_half = _weights(problem, setting, cells, known.take(half), difference[half])
    marginals = {}
    for j, name in enumerate(("mean", "variance")):
        marginals[name] = _marginal(points[:, j], weight)
        other = _marginal(points_of_half[:, j], weight_of_half)
        at = marginals[name].theta
        error = max(error, float(np.abs(np.interp(at, other.theta, other.cdf) - marginals[name].cdf).max()) / 2)
    return Answer(marginals, max(error, _law_error(problem, setting, known, exact)))


def _posterior_at(problem: Problem, setting: Setting, point: Array, fine: bool = False) -> float:
    return float(log_prior(problem, point[None])[0]) + log_likelihood(setting, _theta(point[None])[0], fine)


def _components(cells: Cells) -> NDArray[np.int64]:
    """A number for each rectangle, the same for those that overlap, or touch, in their projections on both axes."""
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
    """How far apart the exact likelihood is to be known: a third of an sd of each mode, or a rectangle where that is wider."""
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


def _exact_at_some(problem: Problem, setting: Setting, cells: Cells, rough: Array) -> tuple[NDArray[np.int64], Array, bool]:
    """The posterior at rectangles that are well apart: their numbers, its logs, and whether they suffice.

    From the best of the approximation downwards, until nothing has mattered for long; False where patience ended first.
    """
    area, spacing = np.log(cells.width).sum(1), _spacing(cells, rough)
    some: list[int] = []
    exact: list[float] = []
    centres = np.zeros((0, 2))
    top, idle = -np.inf, 0
    for i in range(len(rough)):
        near = (np.abs(centres - cells.centre[i]) < spacing[i]).all(1) & (np.abs(rough[some] - rough[i]) < 1.5)
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


def _weights(problem: Problem, setting: Setting, cells: Cells, known: Cells, difference: Array) -> tuple[Array, Array]:
    """Points (mean, variance) with weights: evenly strewn in every rectangle, where the approximation is put right.

    What it lacks is smooth, and interpolated from the rectangles at which it is known.
    """
    scale = np.maximum(np.median(known.width, axis=0), 1e-300)
    size = len(difference)
    flat = size < 6 or np.linalg.matrix_rank((known.centre - known.centre[0]) / scale, tol=1e-6) < 2
    smooth = None if flat else interpolate.RBFInterpolator(known.centre / scale, difference, neighbors=min(24, size))
    tree = spatial.cKDTree(known.centre / scale)

    def logs_at(here: Array) -> Array:
        away, nearest = tree.query(here / scale)
        put_right = difference[nearest]
        if smooth is not None:  # but not far from all that is known, where nothing matters
            put_right = np.where(away < 6, np.clip(smooth(here / scale), put_right - 3, put_right + 3), put_right)
        rough = _rough(setting, *_moments(problem, here), np.zeros((len(here), 2, 2)))[0]
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
    return np.concatenate([_theta(cells.centre[rest]), _theta(here)]), np.exp(log - log.max())


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
    shift = np.array([_posterior_at(problem, setting, cells.centre[i], fine=True) - exact[i] for i in some])
    return float(np.ptp(shift)) / 4 if len(some) > 1 else 0.0
