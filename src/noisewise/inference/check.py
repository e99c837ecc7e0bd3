"""`check`: does a histogram of the same records contradict the family?

The histogram is compared with what the posterior predicts of it. How far apart they would be if the
family were right is found by simulation: theta from the posterior, records, both noisy releases of
these same records, and inference anew from the first, so that the second is compared with a
posterior that has followed its own records, as the real one has.
"""

from dataclasses import dataclass
from typing import Any, final

import numpy as np

from noisewise.artifact import Release
from noisewise.errors import UnsupportedCombination
from noisewise.inference.again import Drawn, infer_again, numbers_of, variance_of
from noisewise.inference.infer import infer
from noisewise.inference.methods.base import Progress
from noisewise.inference.observations import Observations, gather
from noisewise.inference.pair import histogram_of
from noisewise.inference.posterior import Posterior
from noisewise.inference.problem import Problem, check_n_prior, prior_for
from noisewise.inference.same_records import Binned
from noisewise.inference.streams import Streams
from noisewise.model.arrays import FloatArray
from noisewise.model.columns import Bins
from noisewise.model.priors import Prior

REPLICATES, FEWEST = 499, 19
"""Releases that are drawn anew, and the fewest that can reject anything at 5 %."""
REPLICATE = 2
"""The purpose of the seeds, beside those of a posterior."""
BAND = 0.9
"""The share of its draws that the predictive's band holds in each bin."""
SMALL = 0.05
"""A p-value that is called small."""
FRESH = 1000
"""Draws of the posterior from which the points of inference anew take their place."""
INFERRED = 0.3
"""The share of the work after the first posterior; the rest is inference anew."""


@final
@dataclass(frozen=True, slots=True)
class Check:
    """A histogram beside what the model predicts of it, in records for each bin."""

    posterior: Posterior
    column: str
    bins: Bins
    noisy: FloatArray  # (bins,)
    """As released."""
    expected: FloatArray  # (bins,)
    """The posterior predictive mean."""
    low: FloatArray  # (bins,)
    high: FloatArray  # (bins,)
    """In each bin nine in ten draws of the posterior predictive, noise included, lie between."""
    noise_sd: FloatArray  # (bins,)
    p_value: float
    replicates: int

    @property
    def small(self) -> bool:
        """Whether a right model gives so small a p-value in no more than 5 % of checks."""
        return self.p_value <= SMALL

    @property
    def sentence(self) -> str:
        """What was found, and what it does not mean."""
        kind = self.posterior.family.kind
        found = (
            f"p = {self.p_value:.3g}: of {self.replicates} histograms that the {kind} model made "
            f"itself, {round(self.p_value * (self.replicates + 1)) - 1} lie as far from what it "
            "predicts as this one, or further."
        )
        if self.small:
            return (
                f"{found} A right model gets a p-value as small in {self.p_value:.1%} of checks: "
                "look at the bins outside their band."
            )
        return (
            f"{found} Nothing here contradicts the model, which is no proof of it: noise of sd "
            f"{self.noise_sd.max():.3g} on a bin hides what is smaller."
        )

    def table(self) -> list[dict[str, Any]]:
        """One row for each bin: its noisy count, the mean and the 5 and 95 % quantiles of what is
        predicted, and whether it lies between these.
        """
        columns = zip(self.bins.levels, self.noisy, self.expected, self.low, self.high, strict=True)
        return [
            {
                "bin": name,
                "noisy": float(noisy),
                "expected": float(expected),
                "5%": float(low),
                "95%": float(high),
                "inside": bool(low <= noisy <= high),
            }
            for name, noisy, expected, low, high in columns
        ]

    def plot(self) -> Any:
        """Bars of the noisy counts, and the predictive's mean and band; returns the matplotlib
        figure.
        """
        from noisewise.report.bins import plot_check

        return plot_check(self)

    def __repr__(self) -> str:
        return f"Check({self.column}, {self.posterior.family.kind})\n{self.sentence}"


def check(
    release: Release,
    histogram: Release,
    prior: Prior | str,
    *,
    replicates: int = REPLICATES,
    n_prior: Prior | str | None = None,
    seed: int | None = None,
    progress: Progress | None = None,
) -> Check:
    """Whether `histogram`, a release of families.Table({column: Bins([...])}), contradicts the
    family of `release`, which is of the same column of the same records.

    If the model is right, the p-value is at most 0.05 in about 5 % of checks; it is never below
    1 / (replicates + 1).
    """
    cut = histogram_of(release, histogram)
    if isinstance(replicates, bool) or not isinstance(replicates, int) or replicates < FEWEST:
        raise ValueError(f"replicates must be a whole number from {FEWEST}, got {replicates}.")
    own, of_n = prior_for(release, prior), check_n_prior([release], n_prior)
    posterior = infer(release, own, n_prior=of_n, seed=seed)
    observations = gather([release], of_n)
    problem = Problem(release.family, (own,), (observations,))
    binned = Binned.of(release, observations, cut.bins)
    rng = np.random.default_rng(Streams(seed, [[release, histogram]]).of(0, REPLICATE))
    if progress is not None:
        progress(INFERRED)

    theta = _thetas(posterior, replicates, rng)
    n = observations.sizes(theta, rng)
    sums, counts = binned.draw(theta, n, rng)
    drawn = _beside(observations, n, sums + observations.noise().simulate(rng, replicates), rng)
    noisy = counts + histogram.noise.simulate(rng, replicates)
    bins = np.vstack([histogram.statistic, noisy])
    rest = None if progress is None else lambda part: progress(INFERRED + (1 - INFERRED) * part)
    fresh = _thetas(posterior, FRESH, rng)
    weighed = infer_again(problem, binned, drawn, fresh, rng, rest)
    n_said, spread = numbers_of(observations, drawn)
    far = -weighed.log_density(bins, n_said, spread, variance_of(histogram.noise))
    if not np.isfinite(far[0]):
        raise UnsupportedCombination(
            "the model predicts no histogram here; check the prior, the bounds and n."
        )
    others = far[1:][np.isfinite(far[1:])]
    low, high = np.quantile(noisy, [(1 - BAND) / 2, (1 + BAND) / 2], axis=0)
    return Check(
        posterior,
        cut.name,
        cut.bins,
        np.array(histogram.statistic),
        (n[:, None] * binned.shares(theta)).mean(axis=0),
        low,
        high,
        np.sqrt(variance_of(histogram.noise)),
        float((1 + (others >= far[0]).sum()) / (1 + others.size)),
        int(others.size),
    )


def _thetas(posterior: Posterior, size: int, rng: np.random.Generator) -> FloatArray:
    drawn = posterior.draw(size, rng)
    return np.stack([drawn[name] for name in posterior.names], axis=1)


def _beside(
    observations: Observations, n: FloatArray, statistic: FloatArray, rng: np.random.Generator
) -> Drawn:
    """The release in the first row, and those that were drawn."""
    every = np.vstack([observations.y, statistic])
    if observations.count is None:
        return Drawn(every, None)
    noisy = n + observations.count.noise.simulate(rng, n.size)[:, 0]
    return Drawn(every, np.append(observations.count.value, noisy))
