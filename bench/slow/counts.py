"""The posterior of a categorical's probabilities by sums over the true counts: part of the oracle
of bench/stress.py.

Given the counts s the probabilities are Dirichlet, and p(s | y) is proportional to prod_j G(alpha_j
+ s_j)/s_j! noise(y_j - s_j) on sum s = n. The weights of one count are its own factor times the
convolution of the others' at n - s; no sampling.
"""

import numpy as np
from scipy import special

from slow.noise import Noise
from slow.types import Answer, Array, Marginal, Problem


def categorical(problem: Problem) -> Answer:
    """Counts s with weights prod_j G(alpha_j + s_j)/s_j! noise(y_j - s_j) on sum s = n; theta_j
    given s_j is a Beta.
    """
    coarse, fine = _categorical(problem, 2**12), _categorical(problem, 2**13)
    error = max(
        np.abs(np.interp(a.theta, b.theta, b.cdf) - a.cdf).max()
        for a, b in zip(coarse, fine, strict=True)
    )
    return Answer({f"probabilities[{j}]": m for j, m in enumerate(fine)}, float(error) / 2)


def _categorical(problem: Problem, most: int) -> list[Marginal]:
    alpha, y, n = (
        np.array(problem["prior"]["concentration"], dtype=float),
        problem["statistic"],
        problem["n"],
    )
    noises = [Noise.of(problem["noise"], j) for j in range(len(alpha))]
    if n is None:
        return _categorical_unknown(alpha, np.array(y), noises)
    if len(alpha) == 2:
        return _pair(alpha, y, noises, n, most)
    return _several(alpha, y, noises, n, most)


def _pair(alpha: Array, y: list[float], noises: list[Noise], n: int, most: int) -> list[Marginal]:
    """Two categories: one count, summed over whole numbers in cells that shrink towards 0, n and
    the released counts.
    """
    marks = [np.linspace(0, n, most // 4)]
    marks += [side for g in [np.geomspace(1, n + 1, most // 2)] for side in (g, n - g)]
    for centre, noise in ((y[0], noises[0]), (n - y[1], noises[1])):
        out = noise.scale * np.concatenate(
            [np.linspace(0, 3, most // 16), np.geomspace(3, 60, most // 16)]
        )
        marks += [centre - out, centre + out]
    edges = np.unique(np.clip(np.rint(np.concatenate(marks)), 0, n + 1))
    edges = np.unique(np.concatenate([edges, [0.0, n + 1.0]]))
    size = np.diff(edges)  # a cell holds edges[i], ..., edges[i + 1] - 1
    inner = edges[:-1, None] + np.where(
        size[:, None] <= 5, np.arange(5), (size[:, None] - 1) * np.arange(5) / 4
    )
    used = inner < edges[1:, None]
    s = np.minimum(inner, n)
    log = sum(
        special.gammaln(a + k) - special.gammaln(k + 1)
        for a, k in zip(alpha, (s, n - s), strict=True)
    )
    log = (
        log
        + noises[0].log_weight(y[0] - noises[0].released(s))
        + noises[1].log_weight(y[1] - noises[1].released(n - s))
    )
    log = np.where(used, log, -np.inf) + np.log(size / used.sum(1))[:, None]
    weight = np.exp(log - log.max())
    total = weight.sum(1)
    with np.errstate(invalid="ignore"):
        middle = np.where(total > 0, (weight * s).sum(1) / total, s[:, 0])
    number = np.full(len(middle), float(n))
    return [
        _beta_mixture(middle, total, alpha[0], alpha[1], number),
        _beta_mixture(n - middle, total, alpha[1], alpha[0], number),
    ]


def _several(
    alpha: Array, y: list[float], noises: list[Noise], n: int, most: int
) -> list[Marginal]:
    """Three or more categories: convolutions over whole numbers, or over cells of d of them where
    those are too many.
    """
    k = len(alpha)
    gap, about = abs(n - sum(y)), list(y)
    # what is lacking is shared by the squares of the scales; Laplace noise leaves it open
    if noises[0].gaussian:
        gap, about = 0.0, _shared_out(y, noises, n)
    low = [min(max(0.0, about[j] - gap - 45 * noises[j].scale), float(n)) for j in range(k)]
    high = [min(float(n), max(0.0, about[j]) + gap + 45 * noises[j].scale) for j in range(k)]
    width = max(max(b - a for a, b in zip(low, high, strict=True)), 1.0)
    d = max(1.0, np.ceil(width / most))
    first = [np.floor(a / d) for a in low]
    size = int(np.ceil(width / d)) + 2
    factors = [
        _count_factor((first[j] + np.arange(size)) * d, alpha[j], y[j], noises[j], n, d)
        for j in range(k)
    ]
    target = np.rint(n / d - (0 if d == 1 else k / 2)) - sum(first)  # the sum of the cells' numbers
    values = _balance(factors, target)
    out = []
    for j in range(k):
        rest = np.ones(1)
        for i in range(k):
            if i != j:
                rest = np.maximum(_convolve(rest, values[i]), 0.0)
        index = (target - np.arange(size)).astype(int)
        weight = values[j] * np.where(
            (index >= 0) & (index < len(rest)), rest[np.clip(index, 0, len(rest) - 1)], 0.0
        )
        s = (first[j] + np.arange(size)) * d
        if d > 1:
            s, weight = _spread_first(s, weight, alpha[j], d)
        s = np.minimum(s, n)
        out.append(
            _beta_mixture(s, weight, alpha[j], alpha.sum() - alpha[j], np.full(len(s), float(n)))
        )
    return out


def _shared_out(y: list[float], noises: list[Noise], n: int) -> list[float]:
    """Counts from 0 that add up to n, nearest to the released ones in units of the noise."""
    squares = np.array([noise.scale**2 for noise in noises])
    low, high = -(max(y) + n) / squares.min(), (n - min(y)) / squares.min()
    for _ in range(200):
        rate = 0.5 * (low + high)
        if np.maximum(np.array(y) + rate * squares, 0).sum() > n:
            high = rate
        else:
            low = rate
    return [float(v) for v in np.maximum(np.array(y) + rate * squares, 0)]


def _log_prior_sum(s: Array, alpha: float) -> Array:
    """log of the sum of G(alpha + k)/k! over k < s, which is G(alpha + s)/(alpha G(s))."""
    safe = np.maximum(s, 1.0)
    return np.where(
        s >= 1, special.gammaln(alpha + safe) - special.gammaln(safe) - np.log(alpha), -np.inf
    )


def _count_factor(s: Array, alpha: float, y: float, noise: Noise, n: int, d: float) -> Array:
    """log weight of the counts s, s + 1, ..., s + d - 1 together."""
    inside = (s >= 0) & (s <= n)
    safe = np.where(inside, s, 1.0)
    if d == 1:
        log = (
            special.gammaln(alpha + safe)
            - special.gammaln(safe + 1)
            + noise.log_weight(y - noise.released(safe))
        )
        return np.where(inside, log, -np.inf)
    above, below = _log_prior_sum(safe + d, alpha), _log_prior_sum(safe, alpha)
    prior = above + np.log(-np.expm1(np.minimum(below - above, -1e-300)))
    average = special.logsumexp(
        noise.log_weight(y - safe[:, None] - d * (np.arange(9) + 0.5) / 9), axis=1
    ) - np.log(9)
    return np.where(inside, prior + average, -np.inf)


def _spread_first(s: Array, weight: Array, alpha: float, d: float) -> tuple[Array, Array]:
    """Cells near 0 told apart into their counts, which matter there; elsewhere a cell is its
    middle.
    """
    values, weights = [s[s >= 16 * d] + (d - 1) / 2], [weight[s >= 16 * d]]
    for start, mass in zip(s[s < 16 * d], weight[s < 16 * d], strict=True):
        edges = np.unique(
            np.rint(
                np.concatenate([[start, start + d], np.geomspace(max(start, 1), start + d, 60)])
            )
        )
        log = _log_prior_sum(edges, alpha)
        share = np.diff(np.exp(log - log[-1]))
        values.append(np.maximum(0.5 * (edges[1:] + edges[:-1] - 1), edges[:-1]))
        weights.append(mass * share / share.sum())
    return np.concatenate(values), np.concatenate(weights)


def _balance(factors: list[Array], target: float) -> list[Array]:
    """Tilt all factors alike, which the fixed sum does not feel, until their means add up to it."""
    index = np.arange(len(factors[0]))

    def tilted(rate: float) -> list[Array]:
        logs = [f + rate * index for f in factors]
        values = [np.exp(f - f.max()) for f in logs]
        return [v / v.sum() for v in values]

    low, high = -1e5, 1e5
    for _ in range(120):
        rate = 0.5 * (low + high)
        if sum(float(v @ index) for v in tilted(rate)) > target:
            high = rate
        else:
            low = rate
    return tilted(0.5 * (low + high))


def _convolve(a: Array, b: Array) -> Array:
    size = 1 << int(np.ceil(np.log2(len(a) + len(b))))
    return np.fft.irfft(np.fft.rfft(a, size) * np.fft.rfft(b, size), size)[: len(a) + len(b) - 1]


def _categorical_unknown(alpha: Array, y: Array, noises: list[Noise]) -> list[Marginal]:
    """n flat on 0, 1, 2, ...: the same weights times n!/G(sum alpha + n), over every n that the
    noise allows.
    """
    k = len(alpha)
    size = int(max(max(y[j], 0) + 45 * noises[j].scale for j in range(k))) + 2
    s = np.arange(size, dtype=float)
    factors = [
        special.gammaln(alpha[j] + s)
        - special.gammaln(s + 1)
        + noises[j].log_weight(y[j] - noises[j].released(s))
        for j in range(k)
    ]
    values = [np.exp(f - f.max()) for f in factors]
    out = []
    for j in range(k):
        rest = np.ones(1)
        for i in range(k):
            if i != j:
                rest = np.maximum(_convolve(rest, values[i]), 0.0)
        rest = rest[: 3 * size]
        n = s[:, None] + np.arange(len(rest))
        log = special.gammaln(n + 1) - special.gammaln(alpha.sum() + n)
        weight = values[j][:, None] * rest * np.exp(log)
        keep = weight > 1e-12 * weight.max()
        out.append(
            _beta_mixture(
                (s[:, None] + 0 * n)[keep], weight[keep], alpha[j], alpha.sum() - alpha[j], n[keep]
            )
        )
    return out


def _beta_mixture(s: Array, weight: Array, alpha: float, beta: float, n: Array) -> Marginal:
    """The mixture of Beta(alpha + s, beta + n - s), on a grid of logit theta refined until no step
    is above 0.002.
    """
    keep = weight > 1e-10 * weight.max()
    s, weight, n = s[keep], weight[keep] / weight[keep].sum(), n[keep]
    if len(s) > 6000:  # neighbours are alike: put equal masses together
        group = np.floor(np.cumsum(weight) * 5999).astype(int)
        mass = np.bincount(group, weight)
        s, n = (np.bincount(group, weight * x) / np.maximum(mass, 1e-300) for x in (s, n))
        s, n, weight = s[mass > 0], n[mass > 0], mass[mass > 0]
    a, b = alpha + s, np.maximum(beta + n - s, 1e-9)

    def distribution(u: Array) -> Array:
        out = np.zeros(len(u))
        for i in range(0, len(s), 2000):
            block = slice(i, i + 2000)
            out += _beta_cdf(u, a[block], b[block]) @ weight[block]
        return out

    centre = special.logit(np.clip(np.average(a / (a + b), weights=weight), 1e-290, 1 - 1e-16))
    u = np.unique(np.concatenate([np.linspace(-690, 36, 100), np.linspace(-30, 30, 60), [centre]]))
    cdf = distribution(u)
    for _ in range(40):
        i = np.flatnonzero((np.diff(cdf) > 0.002) & (np.diff(u) > 1e-13 * (1 + np.abs(u[1:]))))
        if i.size == 0 or len(u) > 4000:
            break
        new = 0.5 * (u[i] + u[i + 1])
        u, cdf = np.concatenate([u, new]), np.concatenate([cdf, distribution(new)])
        order = np.argsort(u)
        u, cdf = u[order], cdf[order]
    theta = special.expit(u)
    keep = np.concatenate([np.diff(theta) > 0, [True]])
    each = a / (a + b)
    mean = float(weight @ each)
    sd = float(np.sqrt(weight @ ((each - mean) ** 2 + each * (b / (a + b)) / (a + b + 1))))
    return Marginal(theta[keep], np.clip(cdf[keep], 0, 1), (mean, sd))


def _beta_cdf(u: Array, a: Array, b: Array) -> Array:
    """P(theta <= expit(u)) of Beta(a, b), (len(u), len(a)); of its limits, normal and gamma, where
    a or b is beyond 10^7.
    """
    theta, other = special.expit(u)[:, None], special.expit(-u)[:, None]
    if a.max() < 1e7 and b.max() < 1e7:
        return np.where(theta < 0.5, special.betainc(a, b, theta), 1 - special.betainc(b, a, other))
    mean = a / (a + b)
    sd = np.sqrt(mean * (b / (a + b)) / (a + b + 1))
    normal = special.ndtr(np.where(mean < 0.5, theta - mean, b / (a + b) - other) / sd)
    few = special.gammainc(np.minimum(a, 1e6), np.logaddexp(0, u)[:, None] * (b + (a - 1) / 2))
    most = special.gammaincc(np.minimum(b, 1e6), np.logaddexp(0, -u)[:, None] * (a + (b - 1) / 2))
    return np.where(a < 1e6, few, np.where(b < 1e6, most, normal))
