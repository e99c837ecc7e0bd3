"""Partial pooling against enumeration, closed forms and the reference posterior; its edges, its
draws and what it refuses.
"""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from scipy import special, stats

import noisewise
from chance import FALSE_ALARM
from noisewise import Bounds, NoisyCount, families, noise, pool, priors
from noisewise.artifact import Release
from noisewise.errors import UnsupportedCombination
from noisewise.inference.pooling.curves import curves
from noisewise.inference.pooling.evidence import Groups
from noisewise.inference.pooling.populations import Beta, Normal, population_of

ORACLE = json.loads((Path(__file__).parents[1] / "oracle" / "columns.json").read_text())
WIDE = Bounds(-40, 60, outside="clamp")


def bernoulli(n: int, y: float, scale: float = 3.0) -> Release:
    return noisewise.observe(
        family=families.Bernoulli(), n=n, statistic=[y], noise=noise.Laplace(scale)
    )


def enumerated(n: int, y: float, scale: float, psi: np.ndarray) -> np.ndarray:
    """log p(y | theta) by summing over every number of successes."""
    k = np.arange(n + 1)
    log = special.gammaln(n + 1) - special.gammaln(k + 1) - special.gammaln(n - k + 1)
    log = log + k * special.log_expit(psi)[:, None] + (n - k) * special.log_expit(-psi)[:, None]
    return special.logsumexp(log - np.abs(y - k) / scale - np.log(2 * scale), axis=1)


@pytest.mark.parametrize(
    "case", [c for c in ORACLE if c["kind"] == "pool"], ids=lambda c: c["name"]
)
def test_reference_posteriors(case: dict) -> None:
    pooled = pool(
        [bernoulli(n, y, case["scale"]) for n, y in zip(case["n"], case["y"], strict=True)]
    )
    known = case["reference"]
    mean = np.array([one.mean("probability") for one in pooled.groups])
    sd = np.array([one.sd("probability") for one in pooled.groups])
    assert np.all(np.abs(mean - known["mean"]) < 0.03 * np.array(known["sd"]))
    assert np.all(np.abs(sd / known["sd"] - 1) < 0.03)
    population = known["population"]
    assert abs(pooled.population.mean("mean") - population["mean"]) < 0.03 * population["mean_sd"]
    assert abs(pooled.population.sd("mean") / population["mean_sd"] - 1) < 0.03
    assert abs(pooled.population.mean("spread") / population["spread"] - 1) < 0.03
    assert pooled.certificate.numerical_error < 1e-3


@pytest.mark.parametrize("w", [-6.0, -2.0, 0.5, 2.0, 4.0, 6.0, 9.0, 14.0])
def test_evidence_is_the_integral_however_wide_the_population(w: float) -> None:
    """Against a dense sum over psi with an enumerated likelihood; e^w is kappa."""
    said = [(30, 4.1, 3.0), (300, 92.0, 0.7), (12, -2.0, 5.0), (150, 149.5, 2.0)]
    population = Beta()
    groups = Groups(curves([bernoulli(*one) for one in said], population, None), population)
    at = np.array([[v, w] for v in (-2.5, -0.9, 0.4)])
    found = groups.moments(at)
    for g, (n, y, scale) in enumerate(said):
        for j, (v, _) in enumerate(at):
            narrow = np.exp(-w / 2) * 4
            psi = np.unique(
                np.concatenate(
                    [
                        np.linspace(-600, 600, 2401),
                        np.linspace(-30, 30, 3001),
                        v + narrow * np.linspace(-6, 6, 1201),
                    ]
                )
            )
            log = enumerated(n, y, scale, psi)
            peak = log.max() - groups.between.at(psi[np.argmax(log)], np.array(g))
            a, b = np.exp(w) * special.expit(v), np.exp(w) * special.expit(-v)
            log = log - peak + a * special.log_expit(psi) + b * special.log_expit(-psi)
            height = np.exp(log - log.max())
            width = np.diff(psi)
            cells = width * (height[1:] + height[:-1]) / 2
            ends = np.array([height[0] / a, height[-1] / b])
            z = np.log(cells.sum() + ends.sum()) + log.max() - special.betaln(a, b)
            if z < -12:  # hopeless pairs need no digits
                continue
            middle = special.expit((psi[1:] + psi[:-1]) / 2)
            mean = (cells @ middle + ends @ [0.0, 1.0]) / (cells.sum() + ends.sum())
            sd = np.sqrt(
                (cells @ (middle - mean) ** 2 + ends @ [mean**2, (1 - mean) ** 2])
                / (cells.sum() + ends.sum())
            )
            assert abs(found.log_z[g, j] - z) < 4e-3
            assert abs(found.first[g, j] + groups.origin[g] - mean) < 5e-3 * max(sd, 1e-4)


def normal_groups(rng: np.random.Generator, count: int) -> tuple[list[Release], np.ndarray]:
    """Groups of a normal of known variance far within the bounds, with normal noise: everything
    is normal given (M, tau). And y/n with its variance.
    """
    releases, rows = [], []
    for _g in range(count):
        n, scale = int(10 ** rng.uniform(0.5, 3)), float(rng.uniform(3, 60))
        y = n * rng.normal(10, 2) + rng.normal(0, np.sqrt(4 * n + scale**2))
        releases.append(
            noisewise.observe(
                family=families.Normal(variance=4.0),
                n=n,
                statistic=[y],
                noise=noise.Gaussian(scale),
                bounds=WIDE,
            )
        )
        rows.append((y / n, 4 / n + scale**2 / n**2))
    return releases, np.array(rows)


@pytest.mark.parametrize("count", [1, 2, 9, 40])
def test_normal_groups_against_closed_forms(count: int, rng: np.random.Generator) -> None:
    releases, rows = normal_groups(rng, count)
    centre, tau = np.meshgrid(
        np.linspace(-40, 60, 4001) if count < 3 else np.linspace(4, 16, 601),
        100 * ((np.arange(400) + 0.5) / 400) ** 2 if count < 3 else (np.arange(150) + 0.5) / 12,
    )
    y, variance = rows[:, 0, None, None], rows[:, 1, None, None]
    total = variance + tau**2
    log = (-0.5 * (y - centre) ** 2 / total - 0.5 * np.log(total)).sum(axis=0)
    weight = np.exp(log - log.max()) * (np.sqrt(tau) if count < 3 else 1.0)
    weight /= weight.sum()
    given = (y * tau**2 + centre * variance) / total
    mean = (given * weight).sum(axis=(1, 2))
    sd = np.sqrt(
        (((given - mean[:, None, None]) ** 2 + variance * tau**2 / total) * weight).sum((1, 2))
    )
    pooled = pool(releases)
    found = np.array([[one.mean("mean"), one.sd("mean")] for one in pooled.groups])
    assert np.all(np.abs(found[:, 0] - mean) < 0.01 * sd)
    assert np.all(np.abs(found[:, 1] / sd - 1) < 0.01)
    for name, grid in (("mean", centre), ("spread", tau)):
        known = (grid * weight).sum()
        spread = np.sqrt(((grid - known) ** 2 * weight).sum())
        assert abs(pooled.population.mean(name) - known) < 0.02 * spread
        assert abs(pooled.population.sd(name) / spread - 1) < 0.02
    # quantiles of the first group against its mixture
    at = np.linspace(mean[0] - 2 * sd[0], mean[0] + 2 * sd[0], 9)
    own = np.sqrt(variance[0] * tau**2 / total[0])
    heavy = weight > weight.max() * 1e-7
    exact = [float((weight * special.ndtr((x - given[0]) / own))[heavy].sum()) for x in at]
    assert np.abs(pooled.groups[0].cdf("mean", at) - exact).max() < 0.006


@pytest.mark.thorough
def test_a_second_parameter_is_integrated_out(rng: np.random.Generator) -> None:
    """Under a prior that all but knows the variance the answer is that of a known variance."""
    two, one = [], []
    bounds = Bounds(-10, 30, outside="clamp")
    for g in range(3):
        x = rng.normal([8, 11, 14][g], 2, 60)
        sums = np.array([x.sum(), (x * x).sum()]) + rng.laplace(0, [20.0, 300.0])
        two.append(
            noisewise.observe(
                family=families.Normal(),
                n=60,
                statistic=sums,
                noise=noise.Laplace([20.0, 1e5]),  # the squares say nothing
                bounds=bounds,
            )
        )
        one.append(
            noisewise.observe(
                family=families.Normal(variance=4.0),
                n=60,
                statistic=sums[:1],
                noise=noise.Laplace(20.0),
                bounds=bounds,
            )
        )
    both = pool(two, prior=priors.InverseGamma(2000, 8000)), pool(one)
    for a, b in zip(both[0].groups, both[1].groups, strict=True):
        assert a.names == ("mean",)
        assert abs(a.mean("mean") - b.mean("mean")) < 0.03 * b.sd("mean")
        assert abs(a.sd("mean") / b.sd("mean") - 1) < 0.03
    weak = pool(two)
    assert weak.groups[0].sd("mean") > both[0].groups[0].sd("mean")  # an unknown variance costs


def test_a_group_without_records_is_drawn_from_the_population() -> None:
    pooled = pool([bernoulli(200, y) for y in (40.0, 61.0, 52.0, 75.0)] + [bernoulli(0, 1.7)])
    lattice = pooled._pool.densities.lattice
    population = pooled._pool.densities.population
    mean = population.mean(lattice.at)
    square = mean**2 + population.spread(lattice.at) ** 2
    known = mean @ lattice.weight
    assert pooled.groups[4].mean("probability") == pytest.approx(known, rel=1e-6)
    sd = np.sqrt(square @ lattice.weight - known**2)
    assert pooled.groups[4].sd("probability") == pytest.approx(sd, rel=1e-6)


def test_groups_alike_shrink_to_each_other() -> None:
    same = [bernoulli(100, 30.0) for _ in range(20)]
    pooled = pool(same)
    alone = noisewise.infer(same[0], "weak").sd("probability")
    assert pooled.groups[0].sd("probability") < 0.5 * alone
    assert pooled.population.mean("spread") < 0.04
    assert pooled.groups[0].quantile("probability", 0.5) == pytest.approx(0.3, abs=0.01)
    # many records each: a population narrower than any grid of theta
    tight = pool([bernoulli(10**6, 300_000 + d) for d in (-300.0, 0.0, 40.0, 200.0, 350.0)])
    for one in tight.groups:
        low, high = one.interval("probability", 0.9)
        assert abs(one.mean("probability") - 0.3) < 1e-3
        assert 2.8 * one.sd("probability") < high - low < 3.8 * one.sd("probability")


def test_sizes_and_noises_of_every_kind_go_together(rng: np.random.Generator) -> None:
    releases = []
    for g in range(120):
        n = 0 if g % 20 == 0 else int(10 ** rng.uniform(0, 6))
        scale = 10 ** rng.uniform(-1, 2)
        count = rng.binomial(n, rng.beta(3, 9))
        if g % 3 == 0:
            said = NoisyCount(float(n + rng.laplace(0, scale)), noise.Laplace(scale))
            releases.append(
                noisewise.observe(
                    family=families.Bernoulli(),
                    count=said,
                    statistic=[count + rng.laplace(0, scale)],
                    noise=noise.Laplace(scale),
                )
            )
        else:
            releases.append(bernoulli(n, count + rng.laplace(0, scale), scale))
    pooled = pool(releases)
    limit = stats.norm.isf(FALSE_ALARM / 2)
    for name, truth in (("mean", 0.25), ("spread", np.sqrt(0.25 * 0.75 / 13))):
        away = abs(pooled.population.mean(name) - truth)
        assert away < limit * pooled.population.sd(name)
    assert all(np.isfinite([row["mean"], row["sd"]]).all() for row in pooled.groups.table())
    assert pooled.certificate.warnings == ()


def test_a_release_that_no_records_give_has_a_mean_nonetheless() -> None:
    """A noisy sum below 0 is explained best by a rate without end; the population knows better."""
    bounds = Bounds(0, 60, outside="clamp")
    said = [(500, 5000.0), (600, 6600.0), (400, 3900.0), (550, 5400.0), (10, -90.0)]
    releases = [
        noisewise.observe(
            family=families.Exponential(),
            n=n,
            statistic=[y],
            noise=noise.Laplace(20.0),
            bounds=bounds,
        )
        for n, y in said * 4
    ]
    pooled = pool(releases, seed=1)
    drawn = pooled.groups.draw(200_000, np.random.default_rng(1))["rate"]
    for one, own in zip(pooled.groups, drawn, strict=True):
        assert one.mean("rate") == pytest.approx(own.mean(), abs=0.05 * own.std())
        assert one.sd("rate") == pytest.approx(own.std(), rel=0.1)
        assert one.mean("rate") > 0.05


def test_a_group_that_contradicts_the_others_is_named(rng: np.random.Generator) -> None:
    fine = [bernoulli(500, rng.binomial(500, p) + rng.laplace(0, 3)) for p in rng.beta(60, 140, 30)]
    odd = replace(bernoulli(500, 480.0), group=("ward", "North"))
    assert pool(fine).certificate.cautions == ()
    (caution,) = pool([*fine, odd]).certificate.cautions
    assert caution.startswith("North contradicts")


def test_draws_ranks_and_who_differs() -> None:
    case = next(c for c in ORACLE if c["kind"] == "pool")
    releases = [bernoulli(n, y) for n, y in zip(case["n"], case["y"], strict=True)]
    pooled = pool(releases, draws=3000, seed=3)
    for g, one in enumerate(pooled.groups):
        own = pooled.draws[:, g]
        assert abs(own.mean() - one.mean("probability")) < 0.01 * one.sd("probability")
        assert abs(own.std() / one.sd("probability") - 1) < 0.02
    again = pool(releases, draws=3000, seed=3)
    assert np.array_equal(pooled.draws, again.draws)
    # the population's rows belong to those of the groups: both see its mean
    sure = np.corrcoef(pooled.draws.mean(axis=1), pooled.population.draws["mean"])[0, 1]
    assert sure > 0.3
    ranks = pooled.ranks()
    assert sum(row["rank"] for row in ranks) == pytest.approx(12 * 13 / 2)
    assert sum(row["largest"] for row in ranks) == pytest.approx(1)
    assert all(row["lower"] <= row["rank"] <= row["upper"] for row in ranks)
    differing = pooled.differ(0.9)
    assert [row["release"] for row in differing] == [0, 5]
    assert [row["side"] for row in differing] == ["below", "above"]
    gap = pooled.difference(5, 0)
    assert gap.probability(above=0) > 0.99
    assert gap.mean == pytest.approx(-pooled.difference("group 1", "group 6").mean)
    table = pooled.table()
    assert len(table) == 12
    assert table[0]["method"] == "pooled"


def test_two_groups_given_one_population_lean_on_each_other() -> None:
    """Joint draws know that groups move together: with no spread to speak of, they are one."""
    pooled = pool([bernoulli(50, 15.0, 2.0) for _ in range(30)], draws=4000, seed=1)
    together = np.corrcoef(pooled.draws[:, 0], pooled.draws[:, 1])[0, 1]
    lattice, evidence = pooled._pool.densities.lattice, pooled._pool.densities.evidence
    first = evidence.first[:2]
    middle = first - (first @ lattice.weight)[:, None]
    known = (middle[0] * middle[1]) @ lattice.weight / np.prod(pooled._pool.densities.sd[:2])
    assert together == pytest.approx(known, abs=6 / np.sqrt(4000))


def test_refusals() -> None:
    one = bernoulli(100, 30.0)
    rate = noisewise.observe(
        family=families.Poisson(), n=9, statistic=[20.0], noise=noise.Laplace(9.0),
        bounds=Bounds(0, 9, outside="clamp"),
    )  # fmt: skip
    with pytest.raises(UnsupportedCombination, match="different families"):
        pool([one, rate])
    with pytest.raises(UnsupportedCombination, match="no release"):
        pool([])
    with pytest.raises(UnsupportedCombination, match="leave prior out"):
        pool([one], prior=priors.Beta(1, 1))
    same = [replace(bernoulli(9, y), dataset="d") for y in (1.0, 2.0)]
    with pytest.raises(UnsupportedCombination, match="no disjoint groups"):
        pool(same)
    apart = [replace(r, group=("ward", name)) for r, name in zip(same, "ab", strict=True)]
    assert pool(apart).labels == ("a", "b")
    with pytest.raises(UnsupportedCombination, match="no disjoint groups"):
        pool([apart[0], replace(apart[1], group=("town", "b"))])
    counts = noisewise.observe(
        family=families.Categorical(3), n=9, statistic=[1.0, 2.0, 3.0], noise=noise.Laplace(1.0)
    )
    with pytest.raises(UnsupportedCombination, match="sums"):
        pool([counts])


def test_ranges_of_populations() -> None:
    normal = noisewise.observe(
        family=families.Normal(variance=1.0), n=9, statistic=[20.0], noise=noise.Laplace(9.0),
        bounds=Bounds(-2, 8, outside="clamp"),
    )  # fmt: skip
    assert population_of([normal]) == Normal(-2.0, 8.0)
    rate = noisewise.observe(
        family=families.Poisson(), n=9, statistic=[20.0], noise=noise.Laplace(9.0),
        bounds=Bounds(0, 10, outside="clamp"),
    )  # fmt: skip
    gamma = population_of([rate])
    assert np.exp([gamma.low, gamma.high]) == pytest.approx([5e-3, 5e3])


TRIALS = 50


@pytest.mark.thorough
def test_calibrated_for_groups_and_population(rng: np.random.Generator) -> None:
    """A slice of bench/pooling.py: 50 trials of 8 groups. KS at 1e-6 false alarm each."""
    population, found = Beta(), []
    for _ in range(TRIALS):
        at = np.clip(rng.logistic(size=(1, 2)), -6, 6)
        theta = population.draw(rng, np.repeat(at, 8, axis=0))
        n = rng.integers(5, 200, 8)
        y = rng.binomial(n, theta) + rng.laplace(0, 4, 8)
        pooled = pool([bernoulli(int(a), float(b), 4.0) for a, b in zip(n, y, strict=True)])
        found.append(
            [
                pooled.groups[0].cdf("probability", theta[0]),
                pooled.population.cdf("mean", population.mean(at)[0]),
                pooled.population.cdf("spread", population.spread(at)[0]),
            ]
        )
    for name, u in zip(("group", "mean", "spread"), np.array(found).T, strict=True):
        assert stats.kstest(u, "uniform").pvalue > FALSE_ALARM, name
