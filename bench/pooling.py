"""Is `pool` calibrated, for groups and for the population, and how fast is it?

Every trial draws a population from its prior (section 10 of the design: docs/pooling.md), groups
from the population, records and noise, and takes the posterior quantile U of the truth: of the
population's mean and spread, and of one group. A setting passes if the KS statistic of each is
below its 99.9 % limit, or that of a repeat with a fresh seed below the 99 % one.

Run: python bench/pooling.py [--trials 1000] [--jobs 2] [--only poisson] [--speed]
"""

import argparse
import resource
import time
from collections.abc import Callable

import numpy as np
from joblib import Parallel, delayed
from scipy import stats

import noisewise
from noisewise import Bounds, NoisyCount, Release, families, noise
from noisewise.inference.pooling.populations import Population, population_of

GROUPS, MANY = 8, 40
TINY, ALL = 1e-290, 1 - 1e-12
"""Parameters beyond are told from 0 and 1 by no float."""
LARGEST = 1e12
"""Records are clamped long before; NumPy's Poisson is not drawn for larger rates."""


def bernoulli(theta: float, rng: np.random.Generator) -> Release:
    n = int(rng.integers(5, 200))
    y = rng.binomial(n, theta) + rng.laplace(0, 4)
    return noisewise.observe(
        family=families.Bernoulli(), n=n, statistic=[y], noise=noise.Laplace(4.0)
    )


def unknown(theta: float, rng: np.random.Generator) -> Release:
    """n is flat over a range far wider than its noise tells."""
    n = int(rng.integers(0, 400))
    y, count = rng.binomial(n, theta) + rng.laplace(0, 3), n + rng.laplace(0, 3)
    if not 40 < count < 360:  # the prior of n is flat from 0, and no edge may be felt
        return unknown(theta, rng)
    return noisewise.observe(
        family=families.Bernoulli(),
        count=NoisyCount(float(count), noise.Laplace(3.0)),
        statistic=[y],
        noise=noise.Laplace(3.0),
    )


def small(theta: float, rng: np.random.Generator) -> Release:
    """As many records as the noise of their number."""
    return counted(theta, int(rng.poisson(8)), rng)


def mostly_empty(theta: float, rng: np.random.Generator) -> Release:
    """Four groups of five have no records."""
    return counted(theta, 60 if rng.random() < 0.2 else 0, rng)


def counted(theta: float, n: int, rng: np.random.Generator) -> Release:
    y, count = rng.laplace([rng.binomial(n, theta), n], 4.0)
    return noisewise.observe(
        family=families.Bernoulli(),
        count=NoisyCount(float(count), noise.Laplace(4.0)),
        statistic=[float(y)],
        noise=noise.Laplace(4.0),
    )


def exponential(theta: float, rng: np.random.Generator) -> Release:
    n, bounds = int(rng.integers(10, 100)), Bounds(0, 10, outside="clamp")
    x = np.clip(rng.exponential(1 / max(theta, 1 / LARGEST), n), 0, 10)
    return noisewise.observe(
        family=families.Exponential(), n=n, statistic=[x.sum() + rng.laplace(0, 10)],
        noise=noise.Laplace(10.0), bounds=bounds,
    )  # fmt: skip


def poisson(theta: float, rng: np.random.Generator) -> Release:
    n, bounds = int(rng.integers(10, 100)), Bounds(0, 8, outside="clamp")
    x = np.clip(rng.poisson(min(theta, LARGEST), n), 0, 8)
    return noisewise.observe(
        family=families.Poisson(), n=n, statistic=[x.sum() + rng.normal(0, 8)],
        noise=noise.Gaussian(8.0), bounds=bounds,
    )  # fmt: skip


def normal(theta: float, rng: np.random.Generator) -> Release:
    n, bounds = int(rng.integers(3, 60)), Bounds(-5, 5, outside="clamp")
    x = np.clip(rng.normal(theta, 1.5, n), -5, 5)
    return noisewise.observe(
        family=families.Normal(variance=2.25), n=n, statistic=[x.sum() + rng.laplace(0, 10)],
        noise=noise.Laplace(10.0), bounds=bounds,
    )  # fmt: skip


SETTINGS: dict[str, Callable[[float, np.random.Generator], Release]] = {
    "bernoulli": bernoulli,
    "bernoulli, n unknown": unknown,
    "bernoulli, small groups": small,
    "bernoulli, most empty": mostly_empty,
    "exponential": exponential,
    "poisson": poisson,
    "normal": normal,
}


def trial(name: str, seed: int) -> list[float]:
    rng = np.random.default_rng([seed, sum(map(ord, name))])
    make = SETTINGS[name]
    population: Population = population_of([make(0.5, rng)])
    at = rng.logistic(size=(1, 2))
    groups = MANY if make in (small, mostly_empty) else GROUPS
    theta = population.draw(rng, np.repeat(at, groups, axis=0))
    if population.kind != "normal":
        theta = np.clip(theta, TINY, 1 - 1e-16 if population.kind == "beta" else np.inf)
    pooled = noisewise.pool([make(float(one), rng) for one in theta], draws=1)
    return [
        pooled.population.cdf("mean", population.mean(at)[0]),
        pooled.population.cdf("spread", population.spread(at)[0]),
        _place(pooled, float(theta[0]), population.kind == "beta", rng),
        pooled.certificate.numerical_error,
    ]


def _place(
    pooled: noisewise.Pooled, theta: float, bounded: bool, rng: np.random.Generator
) -> float:
    """U of the first group; a truth beyond the floats is anywhere in the mass beyond."""
    one, name = pooled.groups[0], pooled.name
    if theta <= TINY and pooled.releases[0].family.parameters[0].lower == 0:
        return float(rng.random() * one.cdf(name, TINY))
    if bounded and theta >= ALL:
        return float(1 - rng.random() * (1 - one.cdf(name, ALL)))
    return float(one.cdf(name, theta))


def run(name: str, trials: int, first: int, jobs: int) -> np.ndarray:
    found = Parallel(jobs)(delayed(trial)(name, first + k) for k in range(trials))
    return np.array(found)


def calibration(trials: int, jobs: int, only: str) -> None:
    for name in SETTINGS:
        if only not in name:
            continue
        begun = time.time()
        found = run(name, trials, 0, jobs)
        again = None
        for j, what in enumerate(("mean", "spread", "group")):
            ks = stats.kstest(found[:, j], "uniform").statistic
            limit = stats.kstwo.isf(1e-3, trials)
            verdict = "ok"
            if ks > limit:
                again = run(name, trials, 10**6, jobs) if again is None else again
                second = stats.kstest(again[:, j], "uniform").statistic
                verdict = f"again {second:.3f}: "
                verdict += "ok" if second < stats.kstwo.isf(0.01, trials) else "FAILS"
            cover = np.mean(np.abs(found[:, j] - 0.5) < 0.45)
            said = f"{name:22} {what:7} KS {ks:.3f} (limit {limit:.3f})"
            print(f"{said}, 90 % intervals cover {cover:.1%}: {verdict}")
        print(
            f"  {trials} trials, {time.time() - begun:.0f} s; error at most {found[:, 3].max():.1g}"
        )


def coin(rng: np.random.Generator) -> Release:
    """A group of probabilities, of any size and noise."""
    n, scale = int(10 ** rng.uniform(1, 4)), 10 ** rng.uniform(0, 1.5)
    y = rng.binomial(n, rng.beta(2, 5)) + rng.laplace(0, scale)
    return noisewise.observe(
        family=families.Bernoulli(), n=n, statistic=[y], noise=noise.Laplace(scale)
    )


def wait(rng: np.random.Generator) -> Release:
    """A group of waits within an hour, of any size."""
    n = int(10 ** rng.uniform(1, 4))
    x = np.clip(rng.exponential(np.exp(rng.normal(2.4, 0.2)), n), 0, 60)
    return noisewise.observe(
        family=families.Exponential(),
        n=n,
        statistic=[x.sum() + rng.laplace(0, 60)],
        noise=noise.Laplace(60.0),
        bounds=Bounds(0, 60, outside="clamp"),
    )


def speed(groups: int = 3000) -> None:
    """One pass over many groups, with their ranks and the certificate; beside `infer_many` on the
    same. The memory is the most that was held so far.
    """
    for make in (coin, wait):
        rng = np.random.default_rng(1)
        releases = [make(rng) for _ in range(groups)]
        begun, spent = time.time(), time.process_time()
        pooled = noisewise.pool(releases, seed=1)
        pooled.table()
        ranked = time.time() - begun
        pooled.certificate  # noqa: B018
        wall, cpu = time.time() - begun, time.process_time() - spent
        begun = time.time()
        noisewise.infer_many(releases, "weak").table()
        alone = time.time() - begun
        size = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3
        print(
            f"{groups} {releases[0].family.kind} groups: {ranked:.1f} s with ranks, {wall:.1f} s "
            f"with the certificate ({cpu:.1f} s CPU), {size:.0f} MB; infer_many on the same: "
            f"{alone:.1f} s, ratio {ranked / alone:.1f}"
        )


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--trials", type=int, default=1000)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--only", default="")
    parser.add_argument("--speed", action="store_true")
    given = parser.parse_args()
    if given.speed:
        speed()
    else:
        calibration(given.trials, given.jobs, given.only)
