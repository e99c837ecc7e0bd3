"""The likelihood of two released sums.

The characteristic function of the two sums comes from nodes of one record, tilted to the saddle
point; its Fourier series on a window is their density, against which the noise is integrated. For
few records both are put on a lattice.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import special

from slow.noise import Noise
from slow.plane_records import is_coarse, record_laws
from slow.types import Array, Problem

MANY = 60.0
"""With more records than this within the bounds the law of the sums is smooth."""


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
    inside = (
        setting.n * (1 - heavy) if not is_coarse(setting.problem) else setting.n * (1 - q.max())
    )
    value = (
        _series(setting, t, q, tilt, fine) if inside > MANY else _lattice(setting, t, q, tilt, fine)
    )
    return setting.n * log_m + value


def _tilt(setting: Setting, t: Array, p: Array) -> Array:
    """The saddle point: least of n K(lambda) - lambda y + (noise) over the lambda that the noise
    allows, by Newton's method.
    """
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


def _panels(
    y: float, noise: Noise, tilt: float, centre: Array, sd: float, half: float
) -> tuple[Array, Array]:
    """Nodes and weights in s, a row for each centre, for the noise at y - s against a density of
    width sd on centre +- half.
    """
    low, high = (centre - half)[:, None], (centre + half)[:, None]
    if noise.gaussian:
        own = y - noise.scale**2 * tilt + noise.scale * np.arange(-9, 10, 1.5)
    else:
        steps = noise.scale * np.concatenate([[0.0], 2.0 ** np.arange(-1, 60)])
        steps = steps[: int(np.searchsorted(steps, sd)) + 2]
        own = np.concatenate([y - steps, y + steps])
    across = centre[:, None] + half * np.linspace(-1, 1, 13)
    breaks = np.sort(
        np.clip(
            np.concatenate([across, np.broadcast_to(own, (len(centre), own.size))], 1), low, high
        ),
        1,
    )
    width = np.diff(breaks, axis=1)[:, :, None] / 2
    nodes = (breaks[:, :-1, None] + width * (GAUSS[0] + 1)).reshape(len(centre), -1)
    return nodes, (width * GAUSS[1]).reshape(len(centre), -1)


def _series(setting: Setting, t: Array, q: Array, tilt: Array, fine: bool) -> float:
    """The noise against the Fourier series of the density of (s1, s2 - beta s1), which
    is smooth.
    """
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
        w1, w2 = (
            np.pi * np.arange(-size, size + 1) / half[0],
            np.pi * np.arange(0, size + 1) / half[1],
        )
        a, b = np.exp(-1j * np.outer(w1, d1)), np.exp(-1j * np.outer(w2, d2))
        z = np.log((a * q) @ b.T) if n < 10**7 else _precise(q, d1, d2, w1, w2)
        with np.errstate(under="ignore"):
            law = np.exp(n * z)
        edge = max(np.abs(law[0]).max(), np.abs(law[-1]).max(), np.abs(law[:, -1]).max())
        if edge < 1e-7 or size >= 192:
            break
        size *= 2
    s1, weight1 = (
        array[0] for array in _panels(y[0], first, tilt[0], np.array([n * mean[0]]), sd[0], half[0])
    )
    log_w1 = first.log_weight(y[0] - s1) + tilt[0] * (y[0] - s1)
    ceiling1 = log_w1.max()
    live = (log_w1 > ceiling1 - 40) & (weight1 > 0)
    s1, weight1 = s1[live], weight1[live] * np.exp(log_w1[live] - ceiling1)
    offset = s1 - n * mean[0]
    # (I, K2), Fourier series of the density along s2' at each s1
    rows = np.exp(1j * np.outer(offset, w1)) @ law
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
    """log of the characteristic function where it differs from 1 by less than n floats can tell:
    its cumulants.
    """
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
        -v[0] * f * (f - 1) * (f - 2) / 6
        + v[1] * (f + 1) * (f - 1) * (f - 2) / 2
        - v[2] * (f + 1) * f * (f - 2) / 2
        + v[3] * (f + 1) * f * (f - 1) / 6
    )


def _lattice(setting: Setting, t: Array, q: Array, tilt: Array, fine: bool) -> float:
    """Few records: both statistics on lattices, the law of their sums by the n-th power of the
    transform.
    """
    n, y = setting.n, setting.y
    heavy = t[int(q.argmax())]
    coarse = is_coarse(setting.problem)
    live = n * q > 1e-13
    points, h, pivot = [], [], []
    for j in range(2):
        mean = float(q @ t[:, j])
        sd = float(np.sqrt(q @ (t[:, j] - mean) ** 2))
        reach = (
            2
            * min(
                12 * np.sqrt(n) * sd + 14 * np.abs(t[live, j] - heavy[j]).max(),
                n * np.ptp(t[live, j]),
            )
            + 1e-9
        )
        step = setting.problem["noise"]["step"][j] if coarse else 0.0
        if coarse and reach / step < 1500:
            points.append(1 << int(np.ceil(np.log2(reach / step + 4))))
            h.append(step)
        else:
            size = 128 if not fine else 256
            while reach / size > setting.noises[j].scale / (6 if not fine else 12) and size < (
                1024 if not fine else 2048
            ):
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
        f * (f2 - 1) * (f - 2) / 24,
        f * (f - 1) * (4 - f2) / 6,
        1 + f2 * (f2 - 5) / 4,
        f * (f + 1) * (4 - f2) / 6,
        f * (f2 - 1) * (f + 2) / 24,
    ]
    return k.astype(np.int64), weights
