"""Exact posterior of a categorical's probabilities from several releases: a Markov chain over the
true counts.

  p(s | y) proportional to prod_j Gamma(a_j + s_j)/s_j! noise(y_j - s_j)   on   sum s = n.
A sweep pairs the categories at random. Within a pair the total is fixed and one count is
slice-sampled on the whole
numbers; then both are proposed afresh from their Beta-binomial prior and accepted on the ratio of
the noise; where
concentrations are small, a count also walks in its logarithm, and each such category meets one of
the largest. All pairs
and chains move at once. What is reported comes from the mixture of Dirichlet(a + s) over the
sweeps. Given the counts of
other releases about the same probabilities, those of one have the prior Dirichlet(a + their sum):
they take turns.

Where n is not public, p(s) has the factor n! / Gamma(A + n), A the sum of a: (n + A)/Gamma(A) times
the integral of u^n (1 - u)^(A - 1) over u in [0, 1]. Given u every count moves by itself; n + A and
the prior of n decide whether they did.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import special

from noisewise.inference.methods import diagnostics
from noisewise.inference.methods.categorical.betas import Betas
from noisewise.inference.methods.categorical.convolution import log_rising
from noisewise.inference.observations import Observations
from noisewise.mechanism.noise import Noise, Shape
from noisewise.model.arrays import FloatArray, IntArray
from noisewise.model.priors import Dirichlet, Prior

BURN_IN = 100
ERROR = 0.01
"""Sweeps go on until the Monte Carlo error of every mean is below this share of its sd."""
UPDATES = 1 << 12
"""Pairs of all chains that move at once; the number of chains follows from it."""
MOST_WORK = 8 << 20
"""Densities that are evaluated in all: about two seconds. What is left of the error then stands in
the certificate.
"""
OF_A_MOVE = 6
"""Evaluations that a move takes besides those of its slice."""
OF_A_ROUND = 256
"""What a round of a slice costs however few are left in it."""
MOST_ALONE = 256
"""Categories up to which chains of several releases start from draws given each alone."""
Begin = Callable[[np.random.Generator, int], FloatArray]
LEAST = 16
"""Sweeps that are kept whatever they cost: fewer tell nothing of how the chain mixes."""
SMALL = 0.5
"""Below this concentration counts pile up at 0."""
STRETCH = 2.0
"""Step of the walk in the logarithm of a count."""
MOST_BETAS = 1 << 15
"""Sweeps, of all chains, that a mixture is made of."""
EXACT = 2.0**53
"""Whole numbers up to here are told apart."""
KEPT = 1 << 24
"""Counts that are kept, at most; beyond, sweeps are thinned."""


@dataclass(slots=True)
class Work:
    """What a run has cost so far, the same on every machine."""

    done: int = 0


@dataclass(frozen=True, slots=True)
class Chain:
    """The kept counts and how well they mixed."""

    counts: FloatArray  # (sweeps, chains, K), of all releases together
    rhat: float
    ess: float
    autocorrelation: float  # sweeps, of the slowest category
    error: float  # Monte Carlo error of the mean over sd, worst category


def sample(
    released: Sequence[tuple[FloatArray, float | None, Noise]],
    concentration: FloatArray,
    rng: np.random.Generator,
    progress: Callable[[float], None] | None = None,
    n_prior: Prior | None = None,
    alone: Sequence[Begin | None] = (),
) -> Chain:
    """Run until the means are as exact as ERROR asks; each release is its noisy counts, its n if
    that is public, its noise.

    `alone` draws counts of each release given that one alone. Chains start there: wider apart than
    the posterior of all.
    """
    k = concentration.size
    chains = int(np.clip(UPDATES // (k // 2), 16, 1024))
    about = [max(0.0, float(np.round(y.sum()))) if n is None else n for y, n, _ in released]
    states = [
        start(np.tile(y, (chains, 1)), n, concentration, rng)
        for (y, _, _), n in zip(released, about, strict=True)
    ]

    for r, begin in enumerate(alone):
        if begin is not None:
            drawn = begin(rng, chains)
            whole = (drawn == np.floor(drawn)).all(axis=1) & (
                (released[r][1] is None) | (drawn.sum(axis=1) == about[r])
            )
            states[r] = np.where(whole[:, None], drawn, states[r])
    work = Work()

    def move() -> None:
        for r, (y, n, noise) in enumerate(released):
            known = (
                concentration
                if len(states) == 1
                else concentration + sum(s for other, s in enumerate(states) if other != r)
            )
            states[r] = sweep(states[r], y, known, noise, rng, work)
            if n is None:
                states[r] = resize(states[r], y, known, noise, rng, n_prior, work)

    for _ in range(BURN_IN):
        move()
        if work.done > MOST_WORK / 4:
            break
    kept: list[FloatArray] = []
    thin, done, target = 1, 0, 128
    while True:
        while done < target and (work.done < MOST_WORK or done < LEAST):
            move()
            done += 1
            if done % thin == 0:
                kept.append(np.sum(states, axis=0))
        counts = np.stack(kept)
        if counts.size > KEPT:
            kept, thin = kept[1::2], 2 * thin
        report = _report(counts, concentration)
        if progress is not None:
            progress(min(1.0, (ERROR / max(report.error, 1e-12)) ** 2))
        if report.error < ERROR or work.done >= MOST_WORK:
            return Chain(
                report.counts, report.rhat, report.ess, report.autocorrelation * thin, report.error
            )
        target = int(max(done * 1.3, done * min(4.0, (report.error / ERROR) ** 2 * 1.1)))


def sweep(
    s: FloatArray,
    y: FloatArray,
    a: FloatArray,
    noise: Noise,
    rng: np.random.Generator,
    work: "Work | None" = None,
) -> FloatArray:
    """One update of every count; s has shape (chains, K), y and a the same (each chain a problem of
    its own) or (K,).

    Categories of small concentration are mostly near 0, and two of them have nothing to exchange.
    So each also meets one of the categories whose released counts are the largest.
    """
    k = y.shape[-1]
    order = rng.permutation(k)
    half = k // 2
    s = _update(s, order[:half], order[half : 2 * half], y, a, noise, rng, work)
    if np.all(a >= SMALL):
        return s
    large = np.argsort(-np.atleast_2d(y).mean(axis=0))[: max(1, k // 8)]
    rest = np.setdiff1d(np.flatnonzero((np.atleast_2d(a) < SMALL).any(axis=0)), large)
    small = rng.permutation(rest)
    for start in range(0, small.size, large.size):
        partners = small[start : start + large.size]
        s = _update(s, partners, rng.permutation(large)[: partners.size], y, a, noise, rng, work)
    return s


def resize(
    s: FloatArray,
    y: FloatArray,
    a: FloatArray,
    noise: Noise,
    rng: np.random.Generator,
    n_prior: Prior | None,
    work: "Work | None" = None,
) -> FloatArray:
    """One update of every count and of their sum n, which is not public."""
    n, total = s.sum(axis=1), np.broadcast_to(a, s.shape).sum(axis=1)
    # u given n is Beta(n + 1, A); its logarithm by two gammas, since u is close to 1.
    first, second = rng.standard_gamma(n + 1), rng.standard_gamma(total)
    log_u = -np.log1p(second / first)
    alone = _Alone(y, a, noise.scales, _steps(noise), log_u[:, None], noise.shape)
    alone = alone.each(lambda field: np.broadcast_to(field, s.shape))
    moved = _slice(alone, s, rng, work)
    size = moved.sum(axis=1)
    gain = np.log(size + total) - np.log(n + total)
    if n_prior is not None:
        with np.errstate(all="ignore"):
            after, before = (n_prior.log_density(np.maximum(m, 1e-300)[:, None]) for m in (size, n))
            # a start that the prior forbids is left at once
            gain = gain + np.nan_to_num(after - before, nan=np.inf)
    return np.where((np.log(rng.random(n.shape)) < gain)[:, None], moved, s)


def _update(
    s: FloatArray,
    i: IntArray,
    j: IntArray,
    y: FloatArray,
    a: FloatArray,
    noise: Noise,
    rng: np.random.Generator,
    work: "Work | None",
) -> FloatArray:
    """Move the pairs (i, j) of categories, each at its fixed total."""
    total = s[:, i] + s[:, j]
    step = _steps(noise)
    pair = _Pair(
        y[..., i],
        y[..., j],
        a[..., i],
        a[..., j],
        noise.scales[i],
        noise.scales[j],
        step[i],
        step[j],
        total,
        noise.shape,
    )
    x = _slice(pair, s[:, i], rng, work)
    share = _beta(a[..., i], a[..., j], total.shape, rng)
    fresh = rng.binomial(np.minimum(total, EXACT).astype(np.int64), share).astype(float)
    fresh = np.where(total > EXACT, np.floor(total * share), fresh)
    accept = np.log(rng.random(total.shape)) < pair.noise(fresh) - pair.noise(x)
    x = np.where(accept, fresh, x)
    if np.any(a < SMALL):
        x = _stretch(pair, x, rng)
    out = s.copy()
    out[:, i], out[:, j] = x, total - x
    return out


def noise_of(observations: Observations) -> Noise:
    """The noise of the one group of some observations, with its step."""
    return observations.kind.make(tuple(observations.scale[0]), float(observations.block))


def _steps(noise: Noise) -> FloatArray:
    """To a multiple of what each count was rounded, at least 1, (K,)."""
    return (
        np.broadcast_to(np.maximum(noise.steps, 1.0), noise.scales.shape)
        if noise.discrete
        else np.ones(noise.scales.shape)
    )


def rounded(s: FloatArray, step: FloatArray) -> FloatArray:
    """The counts to which noise was added: on the noise's lattice where that is coarser than the
    whole numbers.
    """
    return s if np.all(step <= 1) else np.where(step > 1, step * np.floor(s / step + 0.5), s)


@dataclass(frozen=True, slots=True)
class _Pair:
    """The conditional of one count of a pair, given their total."""

    y1: FloatArray
    y2: FloatArray
    a1: FloatArray
    a2: FloatArray
    scale1: FloatArray
    scale2: FloatArray
    step1: FloatArray
    step2: FloatArray
    total: FloatArray  # (chains, pairs)
    shape: Shape

    def _each(self, change: Callable[[FloatArray], FloatArray]) -> "_Pair":
        y1, y2, a1, a2 = map(change, (self.y1, self.y2, self.a1, self.a2))
        scale1, scale2, step1, step2 = map(
            change, (self.scale1, self.scale2, self.step1, self.step2)
        )
        return _Pair(y1, y2, a1, a2, scale1, scale2, step1, step2, change(self.total), self.shape)

    def flat(self) -> "_Pair":
        """Every pair of every chain in one row."""
        return self._each(lambda field: np.broadcast_to(field, self.total.shape).ravel())

    def take(self, rows: NDArray[np.bool_]) -> "_Pair":
        """Some of a flat row."""
        return self._each(lambda field: field[rows])

    def noise(self, x: FloatArray) -> FloatArray:
        """Log density of the noise, up to a constant; at most 0."""
        first = self.shape.log_kernel(self.y1 - rounded(x, self.step1), self.scale1)
        rest = rounded(self.total - x, self.step2)
        return first + self.shape.log_kernel(self.y2 - rest, self.scale2)

    def prior(self, x: FloatArray) -> FloatArray:
        """Log of the Beta-binomial weight, up to a constant."""
        rest = self.total - x
        return log_rising(self.a1, x) + log_rising(self.a2, rest)

    def highest_prior(self) -> FloatArray:
        """No count of the pair has a prior above this: it peaks inside if both concentrations
        exceed 1, else at an end.
        """
        b1, b2 = self.a1 - 1, self.a2 - 1
        inside = (b1 > 0) & (b2 > 0)
        mode = np.where(
            inside,
            (b1 * (self.total + self.a2 / 2) - b2 * self.a1 / 2) / np.where(inside, b1 + b2, 1.0),
            0.0,
        )
        tried = (np.zeros_like(self.total), self.total, np.clip(mode, 0.0, self.total))
        return np.asarray(np.maximum.reduce([self.prior(x) for x in tried]) + 0.1)

    def bracket(self, level: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Whole numbers outside which the slice {log density >= level} cannot lie."""
        most = np.maximum(self.highest_prior() - level, 0.0)
        far1 = self.shape.reach(most, self.scale1) + self.step1 / 2
        far2 = self.shape.reach(most, self.scale2) + self.step2 / 2
        low = np.maximum(self.y1 - far1, self.total - self.y2 - far2)
        high = np.minimum(self.y1 + far1, self.total - self.y2 + far2)
        return np.clip(np.ceil(low), 0.0, self.total), np.clip(np.floor(high), 0.0, self.total)


@dataclass(frozen=True, slots=True)
class _Alone:
    """The conditional of one count given u, where n is not public."""

    y: FloatArray
    a: FloatArray
    scale: FloatArray
    step: FloatArray
    log_u: FloatArray
    shape: Shape

    def flat(self) -> "_Alone":
        """Every count of every chain in one row."""
        return self.each(np.ravel)

    def take(self, rows: NDArray[np.bool_]) -> "_Alone":
        """Some of a flat row."""
        return self.each(lambda field: field[rows])

    def each(self, change: Callable[[FloatArray], FloatArray]) -> "_Alone":
        """With every field changed."""
        y, a, scale, step, log_u = map(change, (self.y, self.a, self.scale, self.step, self.log_u))
        return _Alone(y, a, scale, step, log_u, self.shape)

    def noise(self, x: FloatArray) -> FloatArray:
        """Log density of the noise, up to a constant; at most 0."""
        return self.shape.log_kernel(self.y - rounded(x, self.step), self.scale)

    def prior(self, x: FloatArray) -> FloatArray:
        """Log weight of the count, up to a constant."""
        return log_rising(self.a, x) + x * self.log_u

    def bracket(self, level: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Whole numbers outside which the slice {log density >= level} cannot lie."""
        # The weight of x + 1 over that of x is u (a + x)/(x + 1): it rises up to this x, and falls
        # from then on.
        mode = np.maximum(
            np.floor((self.a * np.exp(self.log_u) - 1) / -np.expm1(self.log_u)) + 1, 0.0
        )
        highest = self.prior(mode) + 0.1
        most = np.maximum(highest - level, 0.0)
        far = self.shape.reach(most, self.scale) + self.step / 2
        return np.maximum(np.ceil(self.y - far), 0.0), np.maximum(np.floor(self.y + far), 0.0)


def _slice(
    pair: "_Pair | _Alone", x: FloatArray, rng: np.random.Generator, work: "Work | None"
) -> FloatArray:
    """Neal's slice sampler with shrinkage, from a bracket that holds the whole slice and depends on
    its level alone.
    """
    level = pair.prior(x) + pair.noise(x) - rng.standard_exponential(x.shape)
    low, high = pair.bracket(level)
    low, high = np.minimum(low, x), np.maximum(high, x)  # rounding
    out = x.copy().ravel()
    active = np.arange(out.size)
    low, high, level, start = low.ravel(), high.ravel(), level.ravel(), x.ravel()
    here = pair.flat()
    if work is not None:
        work.done += OF_A_MOVE * active.size
    while active.size:
        if work is not None:
            work.done += active.size + OF_A_ROUND
        tried = np.floor(low + (high - low + 1) * rng.random(active.size))
        tried = np.minimum(tried, high)
        good = here.prior(tried) + here.noise(tried) >= level
        out[active[good]] = tried[good]
        left = tried < start
        low, high = np.where(left, tried + 1, low), np.where(left, high, tried - 1)
        keep = ~good & (low <= high)
        active, low, high, level, start, here = (
            active[keep],
            low[keep],
            high[keep],
            level[keep],
            start[keep],
            here.take(keep),
        )
    return out.reshape(x.shape)


def _stretch(pair: _Pair, x: FloatArray, rng: np.random.Generator) -> FloatArray:
    """A random walk of log(x + u), u uniform on [0, 1): with a concentration below 1 the prior is
    nearly flat in it.

    The pair (x, u) has the density of x; proposals symmetric in the logarithm are accepted on the
    ratio of density times x + u.
    """
    now = x + rng.random(x.shape)
    then = now * np.exp(STRETCH * rng.standard_normal(x.shape))
    proposed = np.floor(np.minimum(then, pair.total + 1))
    possible = proposed <= pair.total
    proposed = np.where(possible, proposed, x)
    gain = (
        pair.prior(proposed)
        + pair.noise(proposed)
        - pair.prior(x)
        - pair.noise(x)
        + np.log(then / now)
    )
    return np.where(possible & (np.log(rng.random(x.shape)) < gain), proposed, x)


def _beta(
    a1: FloatArray, a2: FloatArray, shape: tuple[int, ...], rng: np.random.Generator
) -> FloatArray:
    """Beta(a1, a2) by two log-gammas: small concentrations do not become 0/0."""
    logs = [
        np.log(rng.standard_gamma(a + 1, shape)) - rng.standard_exponential(shape) / a
        for a in (a1, a2)
    ]
    return np.asarray(special.expit(logs[0] - logs[1]))


def start(y: FloatArray, n: float, a: FloatArray, rng: np.random.Generator) -> FloatArray:
    """Chains at y of shape (chains, K): half near the released counts, half from the prior, far
    apart, so that R-hat can tell.
    """
    plausible = np.maximum(y, 0.0) + 1e-9 * (1 + n)
    share = plausible / plausible.sum(axis=1, keepdims=True)
    half = len(y) // 2
    share[:half] = Dirichlet(tuple(a)).draw(rng, half)
    counts = np.floor(share * n)
    rank = np.argsort(np.argsort(-(share * n - counts), axis=1), axis=1)
    return np.asarray(counts + (rank < (n - counts.sum(axis=1))[:, None]))


def _report(counts: FloatArray, a: FloatArray) -> Chain:
    total = a.sum() + counts.sum(axis=2, keepdims=True)
    mean = (a + counts) / total
    within = mean * (1 - mean) / (total + 1)
    sd = np.sqrt(mean.var(axis=(0, 1)) + within.mean(axis=(0, 1)))
    moving = np.ptp(counts, axis=(0, 1)) > 0
    if not moving.any():
        return Chain(counts, 1.0, float(counts.shape[0] * counts.shape[1]), 1.0, 0.0)
    result = diagnostics.of(counts[:, :, moving])
    error = mean[:, :, moving].std(axis=(0, 1)) / np.sqrt(result.ess) / sd[moving]
    return Chain(
        counts,
        float(result.rhat.max()),
        float(result.ess.min()),
        float(result.autocorrelation.max()),
        float(error.max()),
    )


def betas(counts: FloatArray, a: FloatArray) -> Betas:
    """The mixture of Betas of each probability, one for each sweep, in the order of their means."""
    flat = counts.reshape(-1, counts.shape[2])
    if len(flat) > MOST_BETAS:
        flat = flat[np.linspace(0, len(flat) - 1, MOST_BETAS).astype(int)]
    rest = flat.sum(axis=1, keepdims=True) - flat
    every = Betas.of(np.full(flat.T.shape, 1 / len(flat)), (a + flat).T, (a.sum() - a + rest).T)
    return every.rows_as_one(len(a)).fewer()


def draw(counts: FloatArray, a: FloatArray, size: int, rng: np.random.Generator) -> FloatArray:
    """Draws of the probabilities, (size, K), each from a sweep chosen at random."""
    flat = counts.reshape(-1, counts.shape[2])
    rows: IntArray = rng.integers(len(flat), size=size)
    return Dirichlet(a + flat[rows]).draw(rng, size)
