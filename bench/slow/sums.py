"""The likelihood of one released sum.

* the law of one record's contribution is a list of values and probabilities (atoms, lattice points,
  or quadrature nodes);
* it is put on a lattice of spacing h, and the law of the sum of n of them is the n-th power of its
  discrete Fourier
  transform. Where h is not the statistic's own step, a value between two lattice points is shared
  among five of them so
  that its first four moments stay (Lagrange's weights, centred: no power of their transform grows);
* the noise is summed over that lattice.

Before that the records are tilted by e^(lambda t), with lambda the saddle point of record and noise
together, so that a released value far out in a tail keeps all its digits.
"""

from dataclasses import dataclass

import numpy as np
from scipy import special

from slow.noise import Noise
from slow.number import Count
from slow.records import Law, record_law
from slow.types import Array, Problem


@dataclass(frozen=True)
class Resolution:
    """How finely the law of the sum is resolved."""

    points: int
    most: int
    nodes: int
    reach: float = 14.0


GAUSS = special.roots_legendre(8)
LOST = -1e5
"""log p(y) where it is below what the arithmetic can tell."""
LOW = Resolution(points=2**10, most=2**12, nodes=6)
FINE = Resolution(points=2**13, most=2**16, nodes=12)
FINER = Resolution(points=2**14, most=2**18, nodes=16, reach=17.0)


@dataclass(frozen=True)
class Evaluation:
    log_likelihood: Array
    residual: Array
    """(y - E S) / sd of y, which changes sign where the expected statistic crosses the released
    one.
    """


def evaluate(problem: Problem, u: Array, resolution: Resolution) -> Evaluation:
    """log p(y | theta), up to one constant, at every u."""
    parts = [_evaluate(problem, u[i : i + 64], resolution) for i in range(0, len(u), 64)]
    return Evaluation(
        np.concatenate([part.log_likelihood for part in parts]),
        np.concatenate([part.residual for part in parts]),
    )


def _evaluate(problem: Problem, u: Array, resolution: Resolution) -> Evaluation:
    law = record_law(problem, u, resolution.nodes)
    noise, count, y = Noise.of(problem["noise"]), Count(problem), problem["statistic"][0]
    mean = (law.p * law.t).sum(1)
    variance = (law.p * (law.t - mean[:, None]) ** 2).sum(1)
    n = count.middle
    spread = noise.variance + n * variance
    if count.n is None:
        spread = spread + mean**2 * count.noise.variance
    residual = (y - n * mean) / np.sqrt(spread)
    tilt = _tilt(law, count, y, noise, residual)
    logs = np.array(
        [
            _one(law.t[i], law.p[i], law.step, count, y, noise, float(tilt[i]), resolution)
            for i in range(len(u))
        ]
    )
    logs = np.where(np.isfinite(logs), logs, LOST - residual**2)
    return Evaluation(logs, residual)


def strained(problem: Problem, u: float) -> bool:
    """Whether the released sum asks for numbers of records, at this u, beyond those that the count
    leaves to be summed.
    """
    law, count = record_law(problem, np.array([u])), Count(problem)
    found = _evaluate(problem, np.array([u]), LOW)
    tilt = _tilt(law, count, problem["statistic"][0], Noise.of(problem["noise"]), found.residual)
    exponent = tilt[0] * law.t[0]
    return count.strained(float(special.logsumexp(exponent, b=law.p[0])))


def _tilt(law: Law, count: Count, y: float, noise: Noise, residual: Array) -> Array:
    """lambda with E S(lambda) + (noise variance) lambda = y, within the range that the noises
    allow; near is enough.
    """
    tilt = np.zeros(len(residual))
    far = np.flatnonzero(np.abs(residual) > 1.5)
    n = count.high
    if far.size == 0 or n == 0:
        return tilt
    t, p = law.t[far], law.p[far]
    quadratic = noise.scale**2 if noise.gaussian else 0.0
    if noise.gaussian:
        low = np.minimum((y - n * np.maximum(t.max(1), 0)) / quadratic, 0.0)
        high = np.maximum((y - n * np.minimum(t.min(1), 0)) / quadratic, 0.0)
    else:
        low, high = np.full(far.size, -1 / noise.scale), np.full(far.size, 1 / noise.scale)

    def slope(value: Array) -> tuple[Array, Array]:
        exponent = value[:, None] * t
        top = np.where(p > 0, exponent, -np.inf).max(1, keepdims=True)
        q = p * np.exp(np.minimum(exponent - top, 0.0))
        total = q.sum(1, keepdims=True)
        q = q / total
        m = (q * t).sum(1)
        v = (q * (t - m[:, None]) ** 2).sum(1)
        kappa = top[:, 0] + np.log(total[:, 0])
        number, spread = count.mean_given(kappa)
        slope = number * m + quadratic * value - y
        # beyond what the law of n can be tilted by, turn back
        slope = np.where(
            np.abs(kappa) > count.most_tilt, np.where(value > 0, np.inf, -np.inf), slope
        )
        return slope, np.sqrt(number * v + spread * m**2 + quadratic)

    with np.errstate(over="ignore", invalid="ignore"):
        at_low, at_high = slope(low)[0], slope(high)[0]
    value = np.where(at_low >= 0, low, np.where(at_high <= 0, high, 0.0))
    open_ = (at_low < 0) & (at_high > 0)
    # bisect, but first on the side of 0 where the answer is, geometrically outwards
    guess = np.zeros(far.size)
    for step in range(200):
        if not open_.any():
            break
        f, sd = slope(guess)
        value = np.where(open_, guess, value)
        done = np.abs(f) < 0.5 * sd
        low, high = np.where(f < 0, guess, low), np.where(f > 0, guess, high)
        open_ = open_ & ~done & (high - low > 1e-15 * (np.abs(high) + np.abs(low)))
        guess = 0.5 * (low + high)
        # in the first steps shrink towards 0, where lambda may be many orders smaller than its
        # limits
        if step % 2 == 0:
            small = np.where(
                low >= 0, np.where(low > 0, np.sqrt(np.abs(low * high)), high * 1e-6), 0.0
            )
            small = np.where(
                high <= 0, np.where(high < 0, -np.sqrt(np.abs(low * high)), low * 1e-6), small
            )
            guess = np.where((low >= 0) | (high <= 0), small, guess)
            guess = np.where((guess <= low) | (guess >= high), 0.5 * (low + high), guess)
    tilt[far] = value
    return tilt


def _one(
    t: Array,
    p: Array,
    step: float | None,
    count: Count,
    y: float,
    noise: Noise,
    tilt: float,
    resolution: Resolution,
) -> float:
    """log p(y) at one theta, by the law of the tilted sum on a lattice."""
    n = count.middle
    if count.n == 0:
        return float(noise.log_weight(np.float64(y)))
    keep = p > 0
    t, p = t[keep], p[keep]
    about = y / n if n > 0 else 0.0
    exponent = tilt * (t - about)
    top = exponent.max()
    q = p * np.exp(exponent - top)
    log_m = top + np.log(q.sum())
    kappa = log_m + tilt * about
    q /= q.sum()
    mean = float(q @ t)
    sd = float(np.sqrt(q @ (t - mean) ** 2))
    numbers = count.range_given(kappa)
    span, points = _window(t, q, mean, sd, step, count, numbers, noise, resolution)
    own = step is not None and span / step <= resolution.most  # the statistic's own lattice serves
    h = step if own and step is not None else span / points
    pivot = _pivot(t, q, mean, step if own else None, count)
    masses, index = _sum_law(t, q, pivot, h, points, mean, count, numbers, kappa)
    total = n * pivot + index * h
    if own or h <= noise.scale / 4 or (noise.step is not None and noise.step > h):
        z = y - (noise.released(total) if own else total)
        log_w = noise.log_weight(z) + tilt * (y - total)
        ceiling = log_w.max()
        value = float(masses @ np.exp(log_w - ceiling))
    else:
        number = n if count.n is not None else sum(numbers) / 2
        ceiling, value = _smooth(
            masses / h, total, y, noise, tilt, number * mean, max(np.sqrt(number) * sd, 4 * h)
        )
    if not value > 1e-14 * np.abs(masses).max():
        return -np.inf
    return (n * log_m if n > 0 else -tilt * y) + ceiling + float(np.log(value))


def _pivot(t: Array, q: Array, mean: float, step: float | None, count: Count) -> float:
    """The value about which records are counted: a heavy atom, or the mean, or for few records of
    unknown number 0.
    """
    if count.n is None and count.high < 10**4:
        return 0.0
    heavy = int(q.argmax())
    if count.high * (1 - q[heavy]) < 2e4:
        return float(t[heavy])
    return mean if step is None else step * round(mean / step)


def _window(
    t: Array,
    q: Array,
    mean: float,
    sd: float,
    step: float | None,
    count: Count,
    numbers: tuple[int, int],
    noise: Noise,
    resolution: Resolution,
) -> tuple[float, int]:
    """Width of the window of the sum, and the number of its points."""
    n = numbers[1]
    moving = n * (1 - q.max() if q.max() > 0.5 else 1.0)
    live = t[n * q > 1e-15]
    jump = float(np.abs(live - mean).max()) if live.size else 0.0
    half = resolution.reach * np.sqrt(n) * sd + (20 * jump if moving < 400 else 0.0)
    if count.n is None:
        half += abs(mean) * (numbers[1] - numbers[0]) / 2
        whole = n * (max(t.max(), 0.0) - min(t.min(), 0.0))
    else:
        whole = n * (float(live.max() - live.min()) if live.size else 0.0)
    unit = step if step is not None else 0.0
    span = min(2 * half, 2 * whole) + 4 * unit
    span = max(span, 1e-12 * noise.scale, abs(n * mean) * 1e-13)
    points = resolution.points
    if step is not None and span / step <= resolution.most:
        return span, max(8, 1 << int(np.ceil(np.log2(span / step + 4))))
    while span / points > noise.scale / 16 and points < resolution.most and moving < 2e4:
        points *= 2
    return span, points


def _sum_law(
    t: Array,
    q: Array,
    pivot: float,
    h: float,
    points: int,
    mean: float,
    count: Count,
    numbers: tuple[int, int],
    kappa: float,
) -> tuple[Array, Array]:
    """Masses of (sum - n pivot)/h, n pivot with n the middle number, and the whole numbers they
    belong to.
    """
    f = (t - pivot) / h
    k = np.rint(f)
    f = f - k
    f2, stays = f * f, k == 0
    index = np.concatenate([k, k - 1, k + 1, k - 2, k + 2, np.zeros(1)]) % points
    weight = np.concatenate(
        [
            # what stays at the pivot is left out: only changes are added
            q * (np.where(stays, 0.0, 1.0) + f2 * (f2 - 5) / 4),
            q * f * (f - 1) * (4 - f2) / 6,
            q * f * (f + 1) * (4 - f2) / 6,
            q * f * (f2 - 1) * (f - 2) / 24,
            q * f * (f2 - 1) * (f + 2) / 24,
            [-q[~stays].sum()],
        ]
    )
    change = np.bincount(index.astype(np.int64), weight, points)
    with np.errstate(divide="ignore", invalid="ignore"):
        centred = np.log1p(np.fft.rfft(change))
    centred = np.where(np.isfinite(centred), centred, -1e3)
    omega = 2 * np.pi * np.arange(points // 2 + 1) / (points * h)
    with np.errstate(under="ignore"):
        masses = np.fft.irfft(count.transform(centred, omega * pivot, kappa), points)
    middle = (
        0.5 * sum(numbers) * mean - count.middle * pivot
        if count.n is None
        else count.n * (mean - pivot)
    )
    first = int(np.rint(middle / h)) - points // 2
    whole = first + np.arange(points)
    return masses[whole % points], whole.astype(float)


def _smooth(
    density: Array, total: Array, y: float, noise: Noise, tilt: float, centre: float, sd: float
) -> tuple[float, float]:
    """The noise integrated against a density that is smooth between lattice points: (log scale,
    value).
    """
    low, high = y - total[-1], y - total[0]  # z = y - s
    around = y - centre + sd * np.arange(-16, 17)
    if noise.gaussian:
        top = noise.scale**2 * tilt
        ceiling = 0.5 * (noise.scale * tilt) ** 2
        own = top + noise.scale * np.arange(-12, 13)
    else:
        ceiling, grow = 0.0, 2.0 ** -np.arange(40)
        right, left = max(1 / noise.scale - tilt, 1e-300), max(1 / noise.scale + tilt, 1e-300)
        own = np.concatenate(
            [[0.0], min(45 / right, max(high, 0.0)) * grow, -min(45 / left, max(-low, 0.0)) * grow]
        )
    breaks = np.unique(np.clip(np.concatenate([around, own, [low, high]]), low, high))
    x, w = GAUSS
    half = np.diff(breaks)[:, None] / 2
    z = (breaks[:-1, None] + half * (x + 1)).ravel()
    weights = (half * w).ravel()
    values = cubic(density, (y - z - total[0]) / (total[1] - total[0]))
    return ceiling, float((weights * values) @ np.exp(noise.log_weight(z) + tilt * z - ceiling))


def cubic(row: Array, place: Array) -> Array:
    """Lagrange's cubic through the four points about each place, counted in points from
    the first.
    """
    k = np.clip(np.floor(place).astype(int), 1, len(row) - 3)
    f = place - k
    v = [row[k + j] for j in (-1, 0, 1, 2)]
    return (
        -v[0] * f * (f - 1) * (f - 2) / 6
        + v[1] * (f + 1) * (f - 1) * (f - 2) / 2
        - v[2] * (f + 1) * f * (f - 2) / 2
        + v[3] * (f + 1) * f * (f - 1) / 6
    )
