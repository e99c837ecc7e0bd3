"""Inferring from many releases like one: what each of them says of the bins of a histogram.

The releases were drawn from one posterior, so that theirs lie about that one. Points are drawn once
from a wider law, with a part for each of its peaks, and each release weighs them: prior times
likelihood, under the normal approximation of the sums, over the law that they were drawn from. That
is a thousand times as fast as a posterior for each, and it need not be as exact: all releases, also
the one that was made, are treated alike.
"""

from dataclasses import dataclass
from typing import Any, final

import numpy as np
from scipy import special, stats
from scipy.cluster import vq

from noisewise.inference.methods.base import Progress
from noisewise.inference.observations import Observations
from noisewise.inference.problem import Problem
from noisewise.inference.same_records import Binned
from noisewise.mechanism.noise import Noise
from noisewise.model.arrays import FloatArray

POINTS, POINTS_OF_TWO = 2048, 512
"""About each peak that are weighed, of one parameter and of two: there a likelihood takes
longer.
"""
WIDER, DEGREES = 1.7, 5
"""The points' law is a t as many times as wide as the posterior: posteriors of releases drawn from
it lie about it with sqrt(2) times its sd, and have its width themselves.
"""
SPLIT, FEWEST = 0.1, 20
"""Draws are of two peaks if two clusters of them, of so many at least, spread over less than this
share of what all do, in the geometric mean; the halves of one normal peak spread over 0.36 of it.
"""
PIECE = 1 << 16
"""Pairs of a release and a point whose likelihoods are computed at once."""
NEGLIGIBLE = 1e-9
"""Points of less weight, whatever the release, are left out of what is predicted."""


@final
@dataclass(frozen=True, slots=True)
class Drawn:
    """Releases like one: their statistics and, where n is not public, their noisy counts."""

    statistic: FloatArray  # (releases, d)
    count: FloatArray | None  # (releases,)


@final
@dataclass(frozen=True, slots=True)
class Weighed:
    """What releases say of the bins: the bins' shares at some points, and each one's weights."""

    shares: FloatArray  # (points, bins)
    weight: FloatArray  # (releases, points), NaN for a release that nothing explains

    def log_density(
        self, bins: FloatArray, n: FloatArray, spread: float, noise: FloatArray
    ) -> FloatArray:
        """The log of what each release predicts at noisy bins, (releases, bins), but for a
        constant: a mixture over theta of normals, with the variances of the noise, (bins,), of the
        multinomial, and of n, which is `spread`.

        Where a release has two explanations, it predicts either of two histograms and none between.
        """
        heavy = np.flatnonzero(np.nan_to_num(self.weight).max(axis=0) > NEGLIGIBLE)
        shares, weight = self.shares[heavy], self.weight[:, heavy]
        covariance = (spread - n[0]) * shares[:, :, None] * shares[:, None, :]
        k = np.arange(shares.shape[1])
        covariance[:, k, k] += n[0] * shares + noise
        root = np.linalg.cholesky(covariance)
        log_size = np.log(root[:, k, k]).sum(axis=1)
        whiten = np.linalg.inv(root)  # (points, bins, bins)
        middle = (whiten @ shares[:, :, None])[:, :, 0]
        log = np.empty(weight.shape)
        step = max(1, PIECE // bins.size)
        for start in range(0, len(heavy), step):
            some = slice(start, start + step)
            z = np.tensordot(bins, whiten[some], (1, 2)) - n[:, None, None] * middle[some]
            log[:, some] = -0.5 * (z * z).sum(axis=2) - log_size[some]
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.asarray(special.logsumexp(log, b=weight, axis=1))


def infer_again(
    problem: Problem,
    binned: Binned,
    drawn: Drawn,
    theta: FloatArray,
    rng: np.random.Generator,
    progress: Progress | None = None,
) -> Weighed:
    """What each release says of the bins; theta, (draws, p), is of the posterior that they were
    drawn from.
    """
    psi = problem.psi(theta)
    laws = [_wider(peak) for peak in _peaks(psi[np.isfinite(psi).all(axis=1)])]
    each = POINTS if theta.shape[1] == 1 else POINTS_OF_TWO
    points = np.concatenate([law.rvs(each, random_state=rng).reshape(each, -1) for law in laws])
    drawn_from = special.logsumexp([law.logpdf(points) for law in laws], axis=0)
    known = problem.log_prior(points, np.zeros(len(points), dtype=np.int64)) - drawn_from
    at = problem.theta(points)
    shares = binned.shares(at)
    impossible = ~np.isfinite(shares).all(axis=1)
    shares[impossible], known[impossible] = 0.0, -np.inf
    return Weighed(shares, _weights(problem, drawn, at, known, progress))


def _peaks(psi: FloatArray) -> list[FloatArray]:
    """Draws of psi, (draws, p), by the peaks that they belong to."""
    scaled = (psi - psi.mean(axis=0)) / (psi.std(axis=0) + 1e-300)
    _, half = vq.kmeans2(scaled, 2, seed=0, minit="++")
    halves = [psi[half == k] for k in (0, 1)]
    if min(map(len, halves)) < FEWEST:
        return [psi]
    whole, *parts = (np.linalg.slogdet(_covariance(own))[1] for own in (psi, *halves))
    if np.mean(parts) > whole + np.log(SPLIT):
        return [psi]
    return [peak for own in halves for peak in _peaks(own)]


def _wider(peak: FloatArray) -> Any:
    return stats.multivariate_t(peak.mean(axis=0), WIDER**2 * _covariance(peak), df=DEGREES)


def _covariance(psi: FloatArray) -> FloatArray:
    return np.asarray(np.atleast_2d(np.cov(psi.T)) + np.diag(1e-12 * (1 + psi.var(axis=0))))


def _weights(
    problem: Problem,
    drawn: Drawn,
    theta: FloatArray,
    known: FloatArray,
    progress: Progress | None,
) -> FloatArray:
    """Of every point given every release, (releases, points), each row of sum 1."""
    (one,) = problem.observations
    mean, covariance = one.record.moments(theta)
    releases, points = len(drawn.statistic), len(theta)
    n, spread = numbers_of(one, drawn)
    log = np.empty((releases, points))
    step = max(1, PIECE // points)
    for start in range(0, releases, step):
        rows = np.repeat(np.arange(start, min(start + step, releases)), points)
        place = np.tile(np.arange(points), rows.size // points)
        m = mean[place]
        both = n[rows, None, None] * covariance[place] + spread * m[:, :, None] * m[:, None, :]
        z = drawn.statistic[rows] - n[rows, None] * m
        with np.errstate(all="ignore"):
            value = one.shape.log_with_normals(z, both, np.broadcast_to(one.scale[0], z.shape))
        log[start : start + step] = value.reshape(-1, points)
        if progress is not None:
            progress(min(1.0, (start + step) / releases))
    log = np.nan_to_num(log + known, nan=-np.inf, posinf=-np.inf)
    top = log.max(axis=1, keepdims=True)
    with np.errstate(invalid="ignore"):  # of a release that nothing explains: NaN
        weight = np.exp(log - top)
    return np.asarray(weight / weight.sum(axis=1, keepdims=True))


def numbers_of(observations: Observations, drawn: Drawn) -> tuple[FloatArray, float]:
    """n of each release, and its variance. One that is not public is its noisy count, which is as
    uncertain as its noise.
    """
    if drawn.count is None:
        return np.full(len(drawn.statistic), observations.n[0]), 0.0
    assert observations.count is not None
    return np.maximum(drawn.count, 1.0), float(variance_of(observations.count.noise)[0])


def variance_of(noise: Noise) -> FloatArray:
    """The noise's variance on each number, off its characteristic function near 0."""
    omega = 1e-3 / noise.scales
    return np.asarray(2 * (1 - noise.characteristic(omega)) / omega**2)
