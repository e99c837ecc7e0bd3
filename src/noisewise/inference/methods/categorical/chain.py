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

from noisewise.inference.methods import diagnostics
from noisewise.inference.methods.categorical.betas import Betas
from noisewise.inference.methods.categorical.moves import (
    OneCount,
    PairOfCounts,
    Work,
    beta,
    slice_sample,
    stretch,
)
from noisewise.inference.observations import Observations
from noisewise.mechanism.noise import Noise
from noisewise.model.arrays import FloatArray, IntArray
from noisewise.model.priors import Dirichlet, Prior

BURN_IN = 100
"""Sweeps that are forgotten; a chain starts near the released counts and needs a few."""
ERROR = 0.01
"""Sweeps go on until the Monte Carlo error of every mean is below this share of its sd."""
UPDATES = 1 << 12
"""Pairs of all chains that move at once; the number of chains follows from it."""
MOST_WORK = 8 << 20
"""Densities that are evaluated in all: about two seconds. What is left of the error then stands in
the certificate.
"""
MOST_ALONE = 256
"""Categories up to which chains of several releases start from draws given each alone."""
Begin = Callable[[np.random.Generator, int], FloatArray]
LEAST = 16
"""Sweeps that are kept whatever they cost: fewer tell nothing of how the chain mixes."""
SMALL = 0.5
"""Below this concentration counts pile up at 0."""
MOST_BETAS = 1 << 15
"""Sweeps, of all chains, that a mixture is made of."""
EXACT = 2.0**53
"""Up to here every whole number is a float."""
KEPT = 1 << 24
"""Counts that are kept, at most; beyond, sweeps are thinned."""


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
    alone = OneCount(y, a, noise.scales, _steps(noise), log_u[:, None], noise.shape)
    alone = alone.each(lambda field: np.broadcast_to(field, s.shape))
    moved = slice_sample(alone, s, rng, work)
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
    pair = PairOfCounts(
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
    x = slice_sample(pair, s[:, i], rng, work)
    share = beta(a[..., i], a[..., j], total.shape, rng)
    fresh = rng.binomial(np.minimum(total, EXACT).astype(np.int64), share).astype(float)
    fresh = np.where(total > EXACT, np.floor(total * share), fresh)
    accept = np.log(rng.random(total.shape)) < pair.noise(fresh) - pair.noise(x)
    x = np.where(accept, fresh, x)
    if np.any(a < SMALL):
        x = stretch(pair, x, rng)
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
