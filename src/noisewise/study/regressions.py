"""Are regressions calibrated? Truths from the prior, moments from the model, noise; and where the
truth lies in its posterior.
"""

from dataclasses import dataclass
from typing import final

import numpy as np

from noisewise.artifact import NoisyCount, Release
from noisewise.inference.regress import regress_many
from noisewise.mechanism.noise import Noise
from noisewise.model.arrays import FloatArray
from noisewise.model.bounds import Bounds
from noisewise.model.column_priors import Linear
from noisewise.model.columns import Factor, Number
from noisewise.model.families.moments import Moments

UNIT = Bounds(-1, 1, outside="redact")
"""Of every numeric column: own and standardised units agree."""
OUTCOME = "y"
"""Its name."""
WEAK = Linear()
"""The weak prior."""


@final
@dataclass(frozen=True, slots=True)
class RegressionSetting:
    """`numbers` numeric covariates and a factor of each of `levels`; n records, all of which count
    unless a noisy count is released.
    """

    n: int
    noise: Noise
    numbers: int = 1
    levels: tuple[int, ...] = ()
    prior: Linear = WEAK
    counted: bool = False

    @property
    def family(self) -> Moments:
        """The outcome first, factors, then numbers."""
        factors = {f"f{j}": [str(k) for k in range(many)] for j, many in enumerate(self.levels)}
        numbers = {f"x{j}": UNIT for j in range(self.numbers)}
        return Moments({OUTCOME: UNIT} | factors | numbers)

    @property
    def on(self) -> list[str]:
        """The covariates."""
        return [one.name for one in self.family.parts[1:]]


def covariate_moments(family: Moments, rng: np.random.Generator) -> tuple[FloatArray, FloatArray]:
    """Means and covariance of the covariates, factors before numbers, as the prior has them."""
    parts = family.parts[1:]
    total = sum(len(one.names) for one in parts)
    mean, root, c = np.zeros(total), np.zeros((total, total)), 0
    for one in parts:
        r = len(one.names)
        later, rows = total - c - r, slice(c, c + r)
        if isinstance(one, Number):
            m = rng.uniform(-1, 1)
            own = np.array([[np.sqrt(1 - m**2) * rng.uniform()]])
            mean[c] = m
        else:
            assert isinstance(one, Factor)
            share = rng.dirichlet(np.ones(r + 1))[1:]
            mean[rows] = share
            own = np.linalg.cholesky(np.diag(share) - np.outer(share, share))
        # a contraction W with density |I - WW'|^(later/2): correlations are uniform
        normal = rng.standard_normal((r, c))
        wishart = rng.standard_normal((r, later + r + 1))
        turn = np.linalg.cholesky(wishart @ wishart.T + normal @ normal.T)
        w = np.linalg.solve(turn, normal)
        root[rows, :c] = own @ w
        root[rows, rows] = own @ np.linalg.cholesky(np.eye(r) - w @ w.T)
        c += r
    return mean, root @ root.T


def truth(
    setting: RegressionSetting, rng: np.random.Generator
) -> tuple[FloatArray, float, FloatArray]:
    """Coefficients with the intercept, sigma, and the exact statistic, from the prior."""
    return truth_of(setting.family, setting.prior, setting.n, rng)


def truth_of(
    family: Moments, prior: Linear, n: int, rng: np.random.Generator
) -> tuple[FloatArray, float, FloatArray]:
    """The same for the outcome, factors and numbers of a family, in this order; what puts the
    outcome's square outside its bounds is drawn anew, as a whole.
    """
    names = [name for one in family.parts[1:] for name in one.names]
    sds, p = prior.sds(names), len(names) + 1
    while True:
        mean, c = covariate_moments(family, rng)
        beta = sds * rng.standard_normal(p)
        variance = prior.scale / rng.standard_gamma(prior.shape)
        s = np.empty((p, p))
        s[0, 0], s[0, 1:], s[1:, 0] = 1.0, mean, mean
        s[1:, 1:] = c + np.outer(mean, mean)
        root = np.linalg.cholesky(n * s)
        fit = beta + np.sqrt(variance) * np.linalg.solve(root.T, rng.standard_normal(p))
        squares = float(fit @ (n * s) @ fit) + variance * 2 * rng.standard_gamma((n - p) / 2)
        if squares <= n:
            break
    cross = n * s @ fit
    moment = np.empty((p, p))  # of (y, covariates)
    moment[0, 0], moment[0, 1:], moment[1:, 0] = squares, cross[1:], cross[1:]
    moment[1:, 1:] = n * s[1:, 1:]
    sums = np.concatenate([[cross[0]], n * mean])
    j, k = np.array(family.products).T
    return beta, float(np.sqrt(variance)), np.concatenate([sums, moment[j, k]])


def uniforms(
    setting: RegressionSetting, trials: int, rng: np.random.Generator, draws: int = 200
) -> dict[str, FloatArray]:
    """Where each truth lies in its posterior, by name; uniform where all is right."""
    family = setting.family
    truths: list[dict[str, float]] = []
    releases = []
    for _ in range(trials):
        beta, sigma, exact = truth(setting, rng)
        names = ["intercept", *(name for one in family.parts[1:] for name in one.names)]
        truths.append(dict(zip(names, beta.tolist(), strict=True)) | {"sigma": sigma})
        law = setting.noise.broadcast(family.dimension)
        y = exact + law.simulate(rng, 1)[0]
        count = None
        if setting.counted:
            off = float(setting.noise.broadcast(1).simulate(rng, 1)[0, 0])
            count = NoisyCount(setting.n + off, setting.noise.broadcast(1))
        releases.append(
            Release(family, None if count else setting.n, tuple(y.tolist()), law, count=count)
        )
    found = regress_many(
        releases,
        OUTCOME,
        setting.on,
        prior=setting.prior,
        draws=draws,
        seed=int(rng.integers(2**32)),
    )
    return {
        name: np.array(
            [one.cdf(name, known[name]) for one, known in zip(found, truths, strict=True)]
        )
        for name in truths[0]
    }
