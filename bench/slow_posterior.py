"""Posteriors of one parameter by slow integration, written apart from the library: the reference of bench/stress.py.

A problem is a plain dict (see stress.py). p(theta | y) is proportional to prior(theta) times the likelihood of y, and the
likelihood is computed as it is defined:

* the law of one record's contribution is a list of values and probabilities (atoms, lattice points, or quadrature nodes);
* it is put on a lattice of spacing h, and the law of the sum of n of them is the n-th power of its discrete Fourier
  transform. Where h is not the statistic's own step, a value between two lattice points is shared among five of them so
  that its first four moments stay (Lagrange's weights, centred: no power of their transform grows);
* the noise is summed over that lattice.

Before that the records are tilted by e^(lambda t), with lambda the saddle point of record and noise together, so that a
released value far out in a tail keeps all its digits. theta is scanned over its whole range, by splitting every interval
in which the expected statistic crosses the released one, or in which the density may have a top, until nothing moves.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import interpolate, special, stats

Array = NDArray[np.float64]
Problem = dict[str, Any]
EDGE = 700.0
"""log and logit coordinates end here: beyond it a parameter is no longer a 64-bit number, and the likelihood is flat."""
COARSE = 4096
"""A lattice with at most this many steps over a record's range is summed point by point; a finer one is as good as none."""


# ---------------------------------------------------------------------------------------------------- parameters


@dataclass(frozen=True)
class Coordinate:
    """The unconstrained coordinate u of one parameter: what theta is, and log prior density of u up to a constant."""

    kind: str  # "log", "logit" or "plain"
    prior: Problem

    def theta(self, u: Array) -> Array:
        return {"log": np.exp, "logit": special.expit, "plain": np.asarray}[self.kind](u)

    def of(self, theta: Array) -> Array:
        theta = np.asarray(theta, dtype=float)
        with np.errstate(divide="ignore", invalid="ignore"):
            return {"log": np.log, "logit": special.logit, "plain": np.asarray}[self.kind](theta)

    def log_prior(self, u: Array) -> Array:
        p = self.prior
        with np.errstate(over="ignore"):
            if p["kind"] == "beta":
                return -p["alpha"] * np.logaddexp(0, -u) - p["beta"] * np.logaddexp(0, u)
            if p["kind"] == "gamma":
                return p["shape"] * u - p["rate"] * np.exp(u)
            if p["kind"] == "inverse_gamma":
                return -p["shape"] * u - p["scale"] * np.exp(-u)
            return -0.5 * ((u - p["mean"]) / p["sd"]) ** 2

    def slopes(self) -> tuple[float, float]:
        """Rates at which the prior falls off to the left and to the right beyond the edges, 0 where nothing is left there."""
        p = self.prior
        if p["kind"] == "beta":
            return p["alpha"], p["beta"]
        if p["kind"] == "gamma":
            return p["shape"], 0.0
        return (0.0, p["shape"]) if p["kind"] == "inverse_gamma" else (0.0, 0.0)

    def core(self) -> tuple[float, float]:
        """An interval that holds all of the prior but 1e-10 at either end, within the edges."""
        p, q = self.prior, np.array([1e-10, 1 - 1e-10])
        with np.errstate(all="ignore"):
            if p["kind"] == "beta":
                low = np.log(stats.beta.ppf(1e-10, p["alpha"], p["beta"]))
                high = -np.log(stats.beta.ppf(1e-10, p["beta"], p["alpha"]))
                ends = np.array([low, high])
            elif p["kind"] == "gamma":
                ends = np.log(stats.gamma.ppf(q, p["shape"])) - np.log(p["rate"])
            elif p["kind"] == "inverse_gamma":
                ends = np.log(p["scale"]) - np.log(stats.gamma.ppf(1 - q, p["shape"]))
            else:
                ends = p["mean"] + p["sd"] * stats.norm.ppf(q)
        if self.kind != "plain":
            ends = np.clip(np.nan_to_num(ends, nan=0.0, posinf=EDGE, neginf=-EDGE), -EDGE, EDGE)
        return float(ends[0]), float(ends[1])


def coordinate_of(problem: Problem) -> Coordinate:
    prior = problem["prior"]
    return Coordinate({"beta": "logit", "gamma": "log", "inverse_gamma": "log", "normal": "plain"}[prior["kind"]], prior)


# ------------------------------------------------------------------------------------------------------- records


@dataclass(frozen=True)
class Law:
    """What one record contributes at each of B parameters: values t with probabilities p, both (B, m), on a step or on none."""

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
        return np.where(flip, special.ndtr(-za) - special.ndtr(-zb), special.ndtr(zb) - special.ndtr(za))
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


def _real_law(problem: Problem, u: Array, a: float, b: float, rule: str, step: float | None, nodes: int) -> Law:
    infinite = np.full((1, 1), np.inf)
    below = _mass(problem, u, -infinite, np.full((1, 1), a))
    above = _mass(problem, u, np.full((1, 1), b), infinite)
    low, high = statistic_range(problem)
    if step is not None and (high - low) / step <= COARSE:
        t, p = _lattice_cells(problem, u, a, b, step, low, high)
    else:
        t, p = _panel_nodes(problem, u, a, b, nodes, _mass(problem, u, np.full((1, 1), a), np.full((1, 1), b)))
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


def _lattice_cells(problem: Problem, u: Array, a: float, b: float, step: float, low: float, high: float) -> tuple[Array, Array]:
    """Probabilities of a <= x <= b and t(x) rounding to k, from differences of the distribution function."""
    k = np.arange(np.floor(low / step + 0.5), np.floor(high / step + 0.5) + 1)
    left, right = (k - 0.5) * step, (k + 0.5) * step
    centre = problem["family"].get("mean") if problem["family"]["kind"] == "normal" else None
    if centre is None:
        return k * step, _mass(problem, u, np.clip(left, a, b)[None], np.clip(right, a, b)[None])
    inner, outer = np.sqrt(np.maximum(left, 0)), np.sqrt(np.maximum(right, 0))
    up = _mass(problem, u, np.clip(centre + inner, a, b)[None], np.clip(centre + outer, a, b)[None])
    down = _mass(problem, u, np.clip(centre - outer, a, b)[None], np.clip(centre - inner, a, b)[None])
    return k * step, up + down


def _panel_nodes(problem: Problem, u: Array, a: float, b: float, nodes: int, inside: Array) -> tuple[Array, Array]:
    """Gauss-Legendre nodes on panels graded towards both bounds and, for the normal, around its mean."""
    width = b - a
    graded = np.concatenate(
        [a + width * 2.0 ** -np.arange(61), b - width * 2.0 ** -np.arange(2, 31), a + width * np.arange(17) / 16, [a]]
    )
    breaks = np.broadcast_to(graded, (len(u), graded.size))
    if problem["family"]["kind"] == "normal":
        mean, sd = normal_parameters(problem, u)
        breaks = np.concatenate([breaks[:, 30:], mean[:, None] + sd[:, None] * np.arange(-20, 21)], 1)
        extra = a + width * 2.0 ** -np.arange(31)
        breaks = np.concatenate([breaks, np.broadcast_to(extra, (len(u), extra.size))], 1)
        if problem["family"].get("mean") is not None:
            about = problem["family"]["mean"] + width * np.concatenate([2.0 ** -np.arange(1, 25), -(2.0 ** -np.arange(1, 25))])
            breaks = np.concatenate([breaks, np.broadcast_to(about, (len(u), about.size))], 1)
    breaks = np.sort(np.clip(breaks, a, b), 1)
    x, w = special.roots_legendre(nodes)
    half = np.diff(breaks, axis=1)[:, :, None] / 2
    points = (breaks[:, :-1, None] + half * (x + 1)).reshape(len(u), -1)
    weights = (half * w).reshape(len(u), -1)
    p = weights * _density(problem, u, points)
    if problem["family"]["kind"] != "normal":  # what lies below the first panel, however steep the density is there
        first = breaks[:, 1:2] if breaks[0, 0] < breaks[0, 1] else np.full((len(u), 1), a + width * 2.0**-60)
        lowest = _mass(problem, u, np.full((1, 1), a), first)
        p[points <= first] = 0.0
        points, p = np.concatenate([points, (a + first) / 2], 1), np.concatenate([p, lowest], 1)
    total = p.sum(1, keepdims=True)
    with np.errstate(divide="ignore", invalid="ignore"):
        p = np.where(total > 0, p * (inside / total), 0.0)
    return statistic_of(problem, points), p


# --------------------------------------------------------------------------------------------------------- noise


@dataclass(frozen=True)
class Noise:
    """Noise on one statistic; `log_weight` is its log density or probability up to a constant."""

    gaussian: bool
    scale: float
    step: float | None

    @classmethod
    def of(cls, noise: Problem, j: int = 0) -> "Noise":
        step = noise["step"][j] if noise.get("step") else None
        return cls("gaussian" in noise["kind"], noise["scale"][j], step)

    def log_weight(self, z: Array) -> Array:
        return -0.5 * (z / self.scale) ** 2 if self.gaussian else -np.abs(z) / self.scale

    def released(self, total: Array) -> Array:
        """The sum as it stands on the lattice of the noise."""
        return total if self.step is None else self.step * np.floor(total / self.step + 0.5)

    @property
    def variance(self) -> float:
        return self.scale**2 if self.gaussian else 2 * self.scale**2


# ------------------------------------------------------------------------------------------------- unknown n


class Count:
    """What is known of n: a number, or weights of n = 0, 1, 2, ... from a noisy count."""

    def __init__(self, problem: Problem) -> None:
        self.n = problem["n"]
        self.most_tilt = np.inf
        if self.n is not None:
            self.low = self.high = self.middle = int(self.n)
            return
        self.value = problem["count"]["value"]
        self.noise = Noise.of(problem["count"]["noise"])
        reach = (9 if self.noise.gaussian else 34) * self.noise.scale
        self.low, self.high = max(0, int(self.value - reach)), max(int(self.value + reach) + 2, int(reach) + 2)
        self.middle = max(0, int(np.floor(self.value)))
        self.explicit = self.noise.gaussian or problem.get("n_prior") is not None
        if self.explicit:
            n = np.arange(self.low, self.high + 1, dtype=float)
            log = self.noise.log_weight(self.value - n)
            if problem.get("n_prior") is not None:
                prior = problem["n_prior"]
                log = log + special.xlogy(prior["shape"] - 1, n) - prior["rate"] * n
            keep = log > log.max() - 34
            self.closed = problem.get("n_prior") is None and self.low > 0 and self.noise.scale > 40
            self.numbers, self.weights = n[keep], np.exp(log[keep] - log.max())
            self.low, self.high = int(self.numbers[0]), int(self.numbers[-1])
            self.middle = round(np.average(self.numbers, weights=self.weights))
            if not self.closed:
                self.most_tilt = 300 / (self.high - self.low + 1)
        else:
            self.most_tilt = 0.9 / self.noise.scale

    def mean_given(self, kappa: Array) -> tuple[Array, Array]:
        """About the mean and variance of n under weights times e^(n kappa); infinite mean where they do not sum."""
        if self.n is not None:
            return np.full(kappa.shape, float(self.n)), np.zeros(kappa.shape)
        if self.explicit:
            variance = float(np.average((self.numbers - self.middle) ** 2, weights=self.weights)) + 1e-12
            return np.maximum(self.middle + variance * kappa, 0.1), np.full(kappa.shape, variance)
        b = self.noise.scale
        within = np.clip(kappa * b, -0.9, 0.9)
        mean = self.value + 2 * within * b / (1 - within**2)
        return np.maximum(mean, 0.1), 2 * b**2 * (1 + within**2) / (1 - within**2) ** 2

    def range_given(self, kappa: float) -> tuple[int, int]:
        """The least and greatest n that matter under weights times e^(n kappa)."""
        if self.n is not None:
            return self.low, self.high
        if self.explicit:
            move = int(kappa * self.noise.scale**2) if self.closed else 0
            return max(self.low + min(move, 0), 0), self.high + max(move, 0)
        left, right = 1 / self.noise.scale + kappa, 1 / self.noise.scale - kappa
        low = max(0, int(self.value - 34 / left)) if left > 0 else 0
        return low, int(max(self.value, 0.0) + 34 / right) + 2

    def transform(self, centred: NDArray[np.complex128], shift: Array, kappa: float) -> NDArray[np.complex128]:
        """Sum over n of weight(n) exp(n c) e^((kappa - i shift) (n - middle)), c the log transform of a record about its pivot."""
        if self.n is not None:
            return np.exp(self.n * centred)
        one = centred - 1j * shift + kappa  # log of one record's transform, tilted but not made a probability
        top = np.exp(self.middle * centred)
        if self.explicit:
            return self._explicit(centred, one, top)
        rate = 1 / self.noise.scale
        fraction = self.value - self.middle
        if self.value < 0:
            return top / -np.expm1(one - rate)
        right = np.exp(-(1 - fraction) * rate) * np.exp(one) / -np.expm1(one - rate)
        # sum over j = 0..middle of e^(-j rate) z^-j, z = e^one; where z is small the two powers are taken together
        ratio = -rate - one
        with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
            left = top * (np.expm1((self.middle + 1) * ratio) / np.expm1(ratio))
        lost = ~np.isfinite(left)
        if lost.any():
            left[lost] = self._small(centred[lost], one[lost], rate)
        return np.exp(-fraction * rate) * left + top * right

    def _small(self, centred: NDArray[np.complex128], one: NDArray[np.complex128], rate: float) -> NDArray[np.complex128]:
        """The left sum where |z| is far below e^(-rate): its last terms, e^(-middle rate) and those before it."""
        terms = np.arange(min(self.middle + 1, 60))
        with np.errstate(over="ignore", invalid="ignore", under="ignore"):
            powers = np.exp(terms[:, None] * (one + rate)[None])
            return np.nan_to_num(np.exp(-self.middle * rate) * powers.sum(0) * np.exp(self.middle * (centred - one)))

    def _explicit(
        self, centred: NDArray[np.complex128], one: NDArray[np.complex128], top: NDArray[np.complex128]
    ) -> NDArray[np.complex128]:
        out = np.zeros(one.shape, dtype=complex)
        live = self.low * centred.real > -60  # the rest is nothing
        one = one[live]
        if self.closed:
            offset = self.value - self.middle
            wrapped = one.real + 1j * (np.remainder(one.imag + np.pi, 2 * np.pi) - np.pi)
            out[live] = top[live] * np.exp(offset * wrapped + 0.5 * self.noise.scale**2 * wrapped**2)
            return out
        z, total = np.exp(one), np.zeros(one.shape, dtype=complex)
        for weight in self.weights[::-1]:  # Horner
            total = total * z + weight
        out[live] = total * np.exp(self.middle * centred[live] + (self.low - self.middle) * one)
        return out


# -------------------------------------------------------------------------------------------------- likelihood


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
    """(y - E S) / sd of y, which changes sign where the expected statistic crosses the released one."""


def evaluate(problem: Problem, u: Array, resolution: Resolution) -> Evaluation:
    """log p(y | theta), up to one constant, at every u."""
    parts = [_evaluate(problem, u[i : i + 64], resolution) for i in range(0, len(u), 64)]
    return Evaluation(np.concatenate([part.log_likelihood for part in parts]), np.concatenate([part.residual for part in parts]))


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
    logs = np.array([_one(law.t[i], law.p[i], law.step, count, y, noise, float(tilt[i]), resolution) for i in range(len(u))])
    logs = np.where(np.isfinite(logs), logs, LOST - residual**2)
    return Evaluation(logs, residual)


def _tilt(law: Law, count: Count, y: float, noise: Noise, residual: Array) -> Array:
    """lambda with E S(lambda) + (noise variance) lambda = y, within the range that the noises allow; near is enough."""
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
        slope = np.where(np.abs(kappa) > count.most_tilt, np.where(value > 0, np.inf, -np.inf), slope)
        return slope, np.sqrt(number * v + spread * m**2 + quadratic)

    with np.errstate(over="ignore", invalid="ignore"):
        at_low, at_high = slope(low)[0], slope(high)[0]
    value = np.where(at_low >= 0, low, np.where(at_high <= 0, high, 0.0))
    open_ = (at_low < 0) & (at_high > 0)
    guess = np.zeros(far.size)  # bisect, but first on the side of 0 where the answer is, geometrically outwards
    for step in range(200):
        if not open_.any():
            break
        f, sd = slope(guess)
        value = np.where(open_, guess, value)
        done = np.abs(f) < 0.5 * sd
        low, high = np.where(f < 0, guess, low), np.where(f > 0, guess, high)
        open_ = open_ & ~done & (high - low > 1e-15 * (np.abs(high) + np.abs(low)))
        guess = 0.5 * (low + high)
        # in the first steps shrink towards 0, where lambda may be many orders smaller than its limits
        if step % 2 == 0:
            small = np.where(low >= 0, np.where(low > 0, np.sqrt(np.abs(low * high)), high * 1e-6), 0.0)
            small = np.where(high <= 0, np.where(high < 0, -np.sqrt(np.abs(low * high)), low * 1e-6), small)
            guess = np.where((low >= 0) | (high <= 0), small, guess)
            guess = np.where((guess <= low) | (guess >= high), 0.5 * (low + high), guess)
    tilt[far] = value
    return tilt


def _one(
    t: Array, p: Array, step: float | None, count: Count, y: float, noise: Noise, tilt: float, resolution: Resolution
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
        ceiling, value = _smooth(masses / h, total, y, noise, tilt, number * mean, max(np.sqrt(number) * sd, 4 * h))
    if not value > 1e-14 * np.abs(masses).max():
        return -np.inf
    return (n * log_m if n > 0 else -tilt * y) + ceiling + float(np.log(value))


def _pivot(t: Array, q: Array, mean: float, step: float | None, count: Count) -> float:
    """The value about which records are counted: a heavy atom, or the mean, or for few records of unknown number 0."""
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
    t: Array, q: Array, pivot: float, h: float, points: int, mean: float, count: Count, numbers: tuple[int, int], kappa: float
) -> tuple[Array, Array]:
    """Masses of (sum - n pivot)/h, n pivot with n the middle number, and the whole numbers they belong to."""
    f = (t - pivot) / h
    k = np.rint(f)
    f = f - k
    f2, stays = f * f, k == 0
    index = np.concatenate([k, k - 1, k + 1, k - 2, k + 2, np.zeros(1)]) % points
    weight = np.concatenate([
        q * (np.where(stays, 0.0, 1.0) + f2 * (f2 - 5) / 4),  # what stays at the pivot is left out: only changes are added
        q * f * (f - 1) * (4 - f2) / 6, q * f * (f + 1) * (4 - f2) / 6,
        q * f * (f2 - 1) * (f - 2) / 24, q * f * (f2 - 1) * (f + 2) / 24,
        [-q[~stays].sum()],
    ])  # fmt: skip
    change = np.bincount(index.astype(np.int64), weight, points)
    with np.errstate(divide="ignore", invalid="ignore"):
        centred = np.log1p(np.fft.rfft(change))
    centred = np.where(np.isfinite(centred), centred, -1e3)
    omega = 2 * np.pi * np.arange(points // 2 + 1) / (points * h)
    with np.errstate(under="ignore"):
        masses = np.fft.irfft(count.transform(centred, omega * pivot, kappa), points)
    middle = 0.5 * sum(numbers) * mean - count.middle * pivot if count.n is None else count.n * (mean - pivot)
    first = int(np.rint(middle / h)) - points // 2
    whole = first + np.arange(points)
    return masses[whole % points], whole.astype(float)


def _smooth(density: Array, total: Array, y: float, noise: Noise, tilt: float, centre: float, sd: float) -> tuple[float, float]:
    """The noise integrated against a density that is smooth between lattice points: (log scale, value)."""
    low, high = y - total[-1], y - total[0]  # z = y - s
    around = y - centre + sd * np.arange(-16, 17)
    if noise.gaussian:
        top = noise.scale**2 * tilt
        ceiling = 0.5 * (noise.scale * tilt) ** 2
        own = top + noise.scale * np.arange(-12, 13)
    else:
        ceiling, grow = 0.0, 2.0 ** -np.arange(40)
        right, left = max(1 / noise.scale - tilt, 1e-300), max(1 / noise.scale + tilt, 1e-300)
        own = np.concatenate([[0.0], min(45 / right, max(high, 0.0)) * grow, -min(45 / left, max(-low, 0.0)) * grow])
    breaks = np.unique(np.clip(np.concatenate([around, own, [low, high]]), low, high))
    x, w = GAUSS
    half = np.diff(breaks)[:, None] / 2
    z = (breaks[:-1, None] + half * (x + 1)).ravel()
    weights = (half * w).ravel()
    values = cubic(density, (y - z - total[0]) / (total[1] - total[0]))
    return ceiling, float((weights * values) @ np.exp(noise.log_weight(z) + tilt * z - ceiling))


def cubic(row: Array, place: Array) -> Array:
    """Lagrange's cubic through the four points about each place, counted in points from the first."""
    k = np.clip(np.floor(place).astype(int), 1, len(row) - 3)
    f = place - k
    v = [row[k + j] for j in (-1, 0, 1, 2)]
    return (
        -v[0] * f * (f - 1) * (f - 2) / 6 + v[1] * (f + 1) * (f - 1) * (f - 2) / 2
        - v[2] * (f + 1) * f * (f - 2) / 2 + v[3] * (f + 1) * f * (f - 1) / 6
    )  # fmt: skip


# -------------------------------------------------------------------------------------------------- one parameter


@dataclass(frozen=True)
class Marginal:
    """A distribution function on a grid of theta, with what lies beyond its ends."""

    theta: Array
    cdf: Array
    known: tuple[float, float] | None = None
    """Mean and sd, where they are known better than from the grid."""

    def probability(self, theta: Array) -> tuple[Array, Array]:
        """P(< theta) and P(<= theta), apart only where a jump lies at theta, give or take a rounding."""
        theta = np.asarray(theta, dtype=float)
        near = 1e-12 * np.abs(theta) + 1e-290
        low = np.interp(theta - near, self.theta, self.cdf, left=0.0, right=1.0)
        high = np.interp(theta + near, self.theta, self.cdf, left=0.0, right=1.0)
        return low, high

    def quantile(self, q: Array) -> Array:
        return np.interp(q, self.cdf, self.theta)

    def moments(self) -> tuple[float, float]:
        """Mean and sd; from the grid, theta is even between its points."""
        if self.known is not None:
            return self.known
        with np.errstate(over="ignore", invalid="ignore"):
            mass, middle = np.diff(self.cdf), 0.5 * (self.theta[1:] + self.theta[:-1])
            mass = np.concatenate([[self.cdf[0]], mass, [1 - self.cdf[-1]]])
            middle = np.concatenate([self.theta[:1], middle, self.theta[-1:]])
            mean = float((mass[mass > 0] * middle[mass > 0]).sum())
            return mean, float(np.sqrt((mass[mass > 0] * (middle[mass > 0] - mean) ** 2).sum()))


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
    """A grid of u on which log prior + log likelihood (at low resolution) leaves no top and no crossing unresolved."""
    u = start_grid(problem, coordinate)
    found = evaluate(problem, u, LOW)
    log, residual = coordinate.log_prior(u) + found.log_likelihood, found.residual
    for level in range(70):
        best = log.max()
        change = np.abs(np.diff(log))
        crossing = np.sign(residual[1:]) != np.sign(residual[:-1])
        higher = np.concatenate([[True], log[1:] >= log[:-1]]) & np.concatenate([log[:-1] >= log[1:], [True]])
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


@dataclass(frozen=True)
class Answer:
    """Marginals by name, and how far the oracle trusts itself: an error of distribution functions."""

    marginals: dict[str, Marginal]
    error: float
    note: str = ""


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
    error = _own_error(problem, coordinate, u, log, fine, cdf)
    theta = coordinate.theta(fine)
    # theta may be rounded to one number where u is not: keep the last of equal ones
    keep = np.concatenate([np.diff(theta) > 0, [True]])
    name = NAMES[problem["prior"]["kind"]]
    return Answer({name: Marginal(theta[keep], cdf[keep])}, error)


def _own_error(problem: Problem, coordinate: Coordinate, u: Array, log: Array, fine: Array, cdf: Array) -> float:
    """Against half of the grid, and against a likelihood of twice the resolution at some of its points."""
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


def solve(problem: Problem) -> Answer:
    """The posterior of a problem."""
    kind = problem["family"]["kind"]
    if kind == "categorical":
        from slow_counts import categorical

        return categorical(problem)
    if kind == "normal" and problem["family"]["unknown"] == "both":
        from slow_plane import two_parameters

        return two_parameters(problem)
    return one_parameter(problem)
