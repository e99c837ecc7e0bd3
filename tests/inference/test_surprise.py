"""How surprising a release is: false alarms as often as said, and what is wrong is found.

Releases are simulated from their prior, record by record, and the share of p-values below a level
is compared with the binomial law, at FALSE_ALARM for each comparison. NOISEWISE_SURPRISE=100 makes
every simulation a hundred times as long.
"""

import os
from collections.abc import Callable, Sequence

import numpy as np
import pytest
from scipy import stats

import noisewise
from cases import CASES, TRUNCATED, Case, name
from chance import FALSE_ALARM
from noisewise import Bounds, NoisyCount, families, noise, observe, priors
from noisewise.artifact import Release
from noisewise.inference.certificate import Certificate
from noisewise.inference.observations import gather
from noisewise.inference.problem import Problem
from noisewise.inference.simulation import _skewed, binomial, given_total, sums
from noisewise.inference.surprise import conflict, predictive_tail
from noisewise.model.priors import Prior
from noisewise.study.trials import Setting, simulate

LONGER = int(os.environ.get("NOISEWISE_SURPRISE", "1"))
LEVELS = (0.2, 0.01, 0.001)
Make = Callable[[np.random.Generator], Sequence[Release]]


def tail(releases: Sequence[Release], prior: Prior, n_prior: Prior | None = None) -> float:
    observations = tuple(gather([one], n_prior) for one in releases)
    return predictive_tail(Problem(releases[0].family, (prior,), observations))


def check_rates(p: Sequence[float]) -> None:
    """As many below each level as the binomial law allows. P-values of whole numbers may be a
    little rarer than said.
    """
    found = np.array(p)
    for level in LEVELS:
        below = int((found < level).sum())
        assert stats.binom.sf(below - 1, found.size, level) > FALSE_ALARM, (
            f"{below} of {found.size} below {level}"
        )
        assert stats.binom.cdf(below, found.size, 0.75 * level) > FALSE_ALARM, (
            f"{below} of {found.size} below {level}"
        )


def settings(case: Case) -> list[Setting]:
    """Ordinary bounds and those far in a tail, redacted and clamped, n small and large and not
    public, either kind of noise.
    """
    chosen = (
        [None]
        if not case.intervals
        else [
            b for rule in ("redact", "clamp") for b in (case.bounds(rule)[0], case.bounds(rule)[-1])
        ]
    )
    made = []
    for bounds in chosen:
        for normal in (False, True):
            made += [
                Setting(case.family, case.prior, bounds, n, 1.0, normal=normal)
                for n in (1, 20, 500)
            ]
            made.append(
                Setting(
                    case.family,
                    case.prior,
                    bounds,
                    300,
                    1.0,
                    normal=normal,
                    n_prior=priors.Gamma(9, 0.03),
                )
            )
    return made


def test_false_alarms_of_every_family_noise_and_rule(rng) -> None:
    p = []
    for case in CASES:
        for setting in settings(case):
            sample = simulate(setting, 2 * LONGER, rng)
            p += [tail([one], setting.prior, setting.n_prior) for one in sample.releases]
    check_rates(p)


@pytest.mark.parametrize(("k", "trials"), [(2, 240), (17, 240), (106, 36)])
def test_false_alarms_of_a_categorical(k, trials, rng) -> None:
    """Drawn from the prior itself; n public, not public, and with a prior of its own."""
    p = []
    for concentration, n in ((0.5, 1000), (0.05, 10**5)):
        prior, n_prior = priors.Dirichlet([concentration] * k), priors.Gamma(4, 4 / n)
        for known in ("public", "flat", "prior"):
            for theta in prior.draw(rng, trials // 6 * LONGER):
                m = {
                    "public": n,
                    "flat": int(rng.integers(n)),
                    "prior": round(rng.gamma(4, n / 4)),
                }[known]
                y = rng.multinomial(m, theta / theta.sum()) + rng.laplace(0, 3, k)
                release = observe(
                    family=families.Categorical(k),
                    n=m if known == "public" else None,
                    statistic=y,
                    noise=noise.Laplace(3.0),
                )
                p.append(tail([release], prior, n_prior if known == "prior" else None))
    check_rates(p)


def bernoulli(prior: priors.Beta, n: int, scale: float) -> Make:
    def make(rng: np.random.Generator) -> list[Release]:
        s = float(rng.binomial(n, prior.draw(rng, 1)[0, 0]))
        return [
            observe(
                family=families.Bernoulli(),
                n=n,
                statistic=s + rng.laplace(0, scale),
                noise=noise.Laplace(scale),
            )
        ]

    return make


def counted(most: int, prior: priors.Beta) -> Make:
    """Every n below `most` is equally likely, and not public."""

    def make(rng: np.random.Generator) -> list[Release]:
        n = int(rng.integers(most))
        s = float(rng.binomial(n, prior.draw(rng, 1)[0, 0]))
        count = NoisyCount(n + rng.normal(0, 4), noise.Gaussian(4.0))
        return [
            observe(
                family=families.Bernoulli(),
                count=count,
                statistic=s + rng.laplace(0, 3),
                noise=noise.Laplace(3.0),
            )
        ]

    return make


def waits(prior: priors.Gamma, sizes: Sequence[int], bounds: Bounds, scale: float) -> Make:
    """Exponential records, of several releases about one rate."""

    def make(rng: np.random.Generator) -> list[Release]:
        rate, made = prior.draw(rng, 1)[0, 0], []
        for n in sizes:
            x = rng.exponential(1 / rate, n)
            inside = (x >= bounds.lower) & (x <= bounds.upper)
            s = (
                x[inside].sum()
                if bounds.outside == "redact"
                else x.clip(bounds.lower, bounds.upper).sum()
            )
            y = s + rng.laplace(0, scale)
            made.append(
                observe(
                    family=families.Exponential(),
                    n=n,
                    statistic=y,
                    noise=noise.Laplace(scale),
                    bounds=bounds,
                )
            )
        return made

    return make


def test_false_alarms_of_one_setting(rng) -> None:
    """Enough of them that ten times as many as said would be seen at the level of the warning
    itself.
    """
    prior = priors.Beta(1, 1)
    make = bernoulli(prior, 10**5, 2.0)
    check_rates([tail(make(rng), prior) for _ in range(2000 * LONGER)])


FIXED = priors.Gamma(1e6, 1e6)
HARD: list[tuple[Prior, Make]] = [
    (prior, bernoulli(prior, n, scale))
    for prior, n, scale in (
        (priors.Beta(10, 10), 10**5, 2.0),
        (priors.Beta(0.01, 0.01), 1000, 3.0),
        (priors.Beta(1, 1000), 500, 0.2),
        (priors.Beta(2, 2), 10**12, 5.0),
        (priors.Beta(1e-3, 1e9), 2**62, 5.0),
    )
]
HARD += [(priors.Beta(3, 5), counted(most, priors.Beta(3, 5))) for most in (10, 300, 10**6)]
# the skewness of the sum matters
HARD += [(FIXED, waits(FIXED, [n], Bounds(0, 30, outside="clamp"), 0.1)) for n in (70, 1000)]
HARD += [
    (priors.Gamma(40, 20), waits(priors.Gamma(40, 20), [1000], Bounds(3, 4, outside=rule), 0.01))
    for rule in ("redact", "clamp")
]  # type: ignore[arg-type]
HARD += [
    (
        priors.Gamma(3, 2),
        waits(priors.Gamma(3, 2), [30, 200, 1000], Bounds(0, 5, outside="clamp"), 9.0),
    )
]


def test_false_alarms_where_it_is_hard(rng) -> None:
    """Priors piled at a boundary, rare events, huge n, fixed rates, hardly any noise, few records
    inside, several releases.
    """
    check_rates([tail(make(rng), prior) for prior, make in HARD for _ in range(30 * LONGER)])


@pytest.mark.parametrize("case", TRUNCATED, ids=name)
def test_sums_are_those_of_records(case, rng) -> None:
    """Two-sample Kolmogorov-Smirnov tests at one theta, against records drawn one by one."""
    theta, n, size = case.theta(rng, 1), 100, 10_000 * LONGER
    for outside in ("redact", "clamp"):
        for bounds in case.bounds(outside)[::2]:
            lower, upper = (bounds.lower, bounds.upper)
            if case.family.integer:
                lower, upper = np.ceil(lower), np.floor(upper)
            release = observe(
                family=case.family,
                n=n,
                statistic=[0.0] * case.family.dimension,
                noise=noise.Laplace(1.0),
                bounds=bounds,
            )
            found = sums(
                gather([release]), np.repeat(theta, size, axis=0), np.full(size, float(n)), rng
            )
            x = case.family.simulate(rng, theta, n * size).reshape(size, n)
            counts = (
                (x >= lower) & (x <= upper) if outside == "redact" else np.ones(x.shape, dtype=bool)
            )
            for j, t in enumerate(case.family.statistic(x.clip(lower, upper), np)):
                true = np.where(counts, t, 0.0).sum(axis=1)
                step = 1e-6 * (1 + np.abs(true).max())  # sums of the same numbers in another order
                assert (
                    stats.ks_2samp(
                        np.round(found[:, j] / step), np.round(true / step), method="asymp"
                    ).pvalue
                    > FALSE_ALARM
                )


def test_sums_of_many_skewed_records_are_skewed(rng) -> None:
    """A hundred coins of probability 0.1 have the skewness 0.27. The third moment of 200 000
    standardised draws has a standard error below sqrt(20 / 200 000): 5.5 of them are a false alarm
    in 10^7, and no skewness is 26 of them away.
    """
    size, k, p = 200_000, 100.0, 0.1
    value = np.broadcast_to(np.array([[0.0], [1.0]]), (size, 2, 1))
    weight = np.broadcast_to(np.array([1 - p, p]), (size, 2))
    s = _skewed(value, weight, np.full(size, k), rng)[:, 0]
    z = (s - k * p) / np.sqrt(k * p * (1 - p))
    skewness = (1 - 2 * p) / np.sqrt(k * p * (1 - p))
    assert abs((z**3).mean() - skewness) < 5.5 * np.sqrt(20 / size)
    assert abs(z.mean()) < 5.5 / np.sqrt(size)
    assert abs((z**2).mean() - 1) < 0.01 + 5.5 * np.sqrt(3 / size)


def test_sums_of_whole_numbers_without_end_count_the_least_one_once(rng) -> None:
    """Half of the records lie below the bounds, one in a hundred at the lower one itself: the mean
    of 4 million, within 5.5 standard errors (a false alarm in 10^7).
    """
    rate, n, size = 4000.0, 10_000.0, 400
    release = observe(
        family=families.Poisson(),
        n=int(n),
        statistic=0.0,
        noise=noise.Laplace(1.0),
        bounds=Bounds(rate, 8000, outside="clamp"),
    )
    found = sums(gather([release]), np.full((size, 1), rate), np.full(size, n), rng)
    x = np.arange(0, 8001)
    law, t = stats.poisson.pmf(x, rate), np.maximum(x, rate)
    mean = law @ t
    sd = np.sqrt(law @ (t - mean) ** 2)
    assert abs(found.mean() / n - mean) < 5.5 * sd / np.sqrt(n * size)


def test_a_total_that_is_known_has_no_n_below_zero(rng) -> None:
    """Every n from 0 is as likely as any other before: given the noisy total 2, P(n) is the noise's
    density at 2 - n. Pearson's chi-squared over 20 000 draws.
    """
    law = noise.DiscreteLaplace(3.0, 1.0)
    n, drawn = given_total(2.0, lambda size: law.simulate(rng, size), 20_000)
    np.testing.assert_array_equal(n, 2.0 - drawn[:, 0])
    weight = np.exp(law.log_density((2.0 - np.arange(60.0))[:, None])[:, 0])
    expected = 20_000 * weight / weight.sum()
    counts = np.bincount(n.astype(int), minlength=60)[:60]
    few = expected < 10
    expected, counts = (np.append(part[~few], part[few].sum()) for part in (expected, counts))
    assert stats.chi2.sf(((counts - expected) ** 2 / expected).sum(), expected.size - 1) > (
        FALSE_ALARM
    )


def test_binomial_draws_among_more_records_than_an_integer_holds(rng) -> None:
    """Mean within 6 standard errors (2e-9), variance of 10^5 draws within 6 of sqrt(2 / 10^5) and
    that of the Poisson.
    """
    for n, p in (
        (2.0**41, 1e-12),
        (2.0**50, 0.3),
        (2.0**52, 1 - 2.0**-50),
        (2.0**62, 0.5),
        (2.0**62, 0.0),
    ):
        away = binomial(np.full(100_000, n), np.full(100_000, p), rng) - n * p
        variance = n * p * (1 - p)
        assert abs(away.mean()) <= 6 * np.sqrt(variance / 1e5) + 1e-9
        assert abs(away.var() - variance) <= 6 * np.sqrt((2 * variance**2 + variance) / 1e5)


def test_many_whole_numbers_are_not_summed_over(rng) -> None:
    prior = priors.Gamma(1000, 0.5)
    p = []
    for rate in prior.draw(rng, 40)[:, 0]:
        s = rng.poisson(rate, 5000).clip(0, 10**7).sum()
        bounds = Bounds(0, 10**7, outside="clamp")
        p.append(
            tail(
                [
                    observe(
                        family=families.Poisson(),
                        n=5000,
                        statistic=float(s),
                        noise=noise.Laplace(1e4),
                        bounds=bounds,
                    )
                ],
                prior,
            )
        )
    check_rates(p)
    assert (
        tail(
            [
                observe(
                    family=families.Poisson(),
                    n=5000,
                    statistic=2e7,
                    noise=noise.Laplace(1e4),
                    bounds=bounds,
                )
            ],
            prior,
        )
        < 1e-3
    )


@pytest.mark.parametrize("case", CASES, ids=name)
def test_a_statistic_far_out_is_told(case, rng) -> None:
    """Eight standard deviations of the prior predictive beyond its mean, either way; and none at
    the mean.

    Within ordinary bounds: far in a tail, sums can be so skewed that eight are not rare.
    """
    ordinary = [None] if not case.intervals else [case.bounds("redact")[0], case.bounds("clamp")[0]]
    for setting in settings(case):
        if setting.bounds not in ordinary or setting.n == 1 or setting.n_prior is not None:
            continue
        sample = simulate(setting, 400, rng)
        y = np.array([one.statistic for one in sample.releases])
        spread = 8 * y.std(axis=0)
        for away, told in ((spread, True), (-spread, True), (0 * spread, False)):
            first = sample.releases[0]
            release = observe(
                family=first.family,
                n=first.n,
                statistic=_on_lattice(y.mean(axis=0) + away, first),
                noise=first.noise,
                bounds=first.bounds,
                coordinates=first.coordinates,
            )
            assert (tail([release], setting.prior) < 1e-3) == told


def _on_lattice(y, release):  # type: ignore[no-untyped-def]
    return np.round(y / release.noise.steps) * release.noise.steps


def test_a_count_far_out_is_told() -> None:
    """Far below 0; far from the prior of n; and a statistic that no number of records near the
    count explains.
    """

    def counted(count: float, y: float) -> list[Release]:
        law = noise.Laplace(50.0)
        return [
            observe(
                family=families.Bernoulli(), count=NoisyCount(count, law), statistic=y, noise=law
            )
        ]

    prior, about, any_size = priors.Beta(1, 1), priors.Gamma(100, 0.1), priors.Gamma(1, 1e-5)
    assert tail(counted(-1000.0, 3.0), prior) < 1e-3
    assert tail(counted(-60.0, 3.0), prior) > 1e-2
    assert tail(counted(5000.0, 2500.0), prior) > 1e-2
    assert tail(counted(1000.0, 500.0), prior, about) > 1e-2
    assert tail(counted(5000.0, 500.0), prior, about) < 1e-3
    assert tail(counted(1000.0, 3000.0), prior) < 1e-3
    assert tail(counted(10_000.0, 30_000.0), prior, any_size) < 1e-3
    assert tail(counted(10_000.0, 3000.0), prior, any_size) > 1e-2
    lacking = observe(
        family=families.Categorical(3),
        n=None,
        statistic=[-400.0, -300.0, -300.0],
        noise=noise.Laplace(50.0),
    )
    assert tail([lacking], priors.Dirichlet([1.0] * 3)) < 1e-3


@pytest.mark.parametrize("z", [-1.0, -2.0, -3.0])
def test_a_count_below_zero_is_one_of_two_tests(z) -> None:
    """The statistic, which is ordinary, is the other: the smaller p-value counts twice."""
    release = observe(
        family=families.Bernoulli(),
        count=NoisyCount(4 * z, noise.Gaussian(4.0)),
        statistic=0.0,
        noise=noise.Laplace(3.0),
    )
    assert tail([release], priors.Beta(2, 2)) == pytest.approx(2 * stats.norm.cdf(z), rel=1e-9)


def test_a_certificate_says_it_in_words_and_says_the_same_again() -> None:
    release = observe(family=families.Bernoulli(), n=100, statistic=1e5, noise=noise.Laplace(1.0))
    made = [noisewise.infer(release, priors.Beta(5, 5), seed=seed).certificate for seed in (1, 2)]
    assert made[0].predictive_tail == made[1].predictive_tail
    assert "probability below 0.0002;" in made[0].warnings[0]
    assert made[0].conflict is None
    assert "below 0.0005;" in Certificate("exact", "", predictive_tail=1 / 2001).warnings[0]


def polls(rng: np.random.Generator, sizes: Sequence[int], shares: Sequence[float]) -> list[Release]:
    return [
        observe(
            family=families.Bernoulli(),
            n=n,
            statistic=rng.binomial(n, p) + rng.laplace(0, 3),
            noise=noise.Laplace(3.0),
        )
        for n, p in zip(sizes, shares, strict=True)
    ]


@pytest.mark.parametrize("releases", [2, 5, 8, 12])
def test_releases_that_contradict_each_other_are_told(releases, rng) -> None:
    """One of them speaks of 30 %, the others of 60 %: more than 20 standard deviations."""
    shares = [0.3] + [0.6] * (releases - 1)
    found = noisewise.infer(
        polls(rng, [5000] * releases, shares), priors.Beta(2, 2), seed=1
    ).certificate
    assert found.predictive_tail is not None
    assert found.predictive_tail > 1e-3  # each by itself is ordinary
    assert found.conflict is not None
    assert found.conflict < 1e-3
    assert any(
        "contradict each other" in warning and "one population" in warning
        for warning in found.warnings
    )


def test_releases_that_agree_are_not_said_to_contradict_each_other(rng) -> None:
    """The smallest of several p-values times their number: at most as often below a level as it
    says (FALSE_ALARM each).
    """
    prior, p = priors.Beta(2, 2), []
    for sizes in ([400, 1000], [30, 3000, 200], [100] * 12):
        for share in prior.draw(rng, 8 * LONGER)[:, 0]:
            found = noisewise.infer(
                polls(rng, sizes, [share] * len(sizes)), prior, seed=1
            ).certificate
            assert any("contradict" in warning for warning in found.warnings) == (
                found.conflict < 1e-3
            )
            p.append(found.conflict)
    for level in LEVELS:
        assert stats.binom.sf(int((np.array(p) < level).sum()) - 1, len(p), level) > FALSE_ALARM


def test_false_alarms_of_contradictions(rng) -> None:
    """Three releases of coins whose probability is known: each is compared with the others, and the
    smallest of three p-values is three times as likely to be small.
    """
    p = []
    for _ in range(300 * LONGER):
        made = [
            observe(
                family=families.Bernoulli(),
                n=1000,
                statistic=float(rng.binomial(1000, 0.3)) + rng.laplace(0, 5),
                noise=noise.Laplace(5.0),
            )
            for _ in range(3)
        ]
        problem = Problem(
            made[0].family, (priors.Beta(1, 1),), tuple(gather([one]) for one in made)
        )
        found = conflict(problem, lambda _, size, rng: np.full((size, 1), 0.3))
        assert found is not None
        p.append(found)
    for level in (0.3, 0.1):
        below = sum(value < level for value in p)
        assert stats.binom.sf(below - 1, len(p), level) > FALSE_ALARM
        assert stats.binom.cdf(below, len(p), 0.6 * level) > FALSE_ALARM


def test_the_draws_of_a_release_are_its_own_and_the_same_again() -> None:
    seen: dict[str, list[float]] = {}

    def draw(name: str):  # type: ignore[no-untyped-def]
        def given(_, size, rng):  # type: ignore[no-untyped-def]
            seen.setdefault(name, []).append(rng.random())
            return np.full((size, 1), 0.3)

        return given

    def made(y: float, count: float | None = None) -> Release:
        known = {"n": 50} if count is None else {"count": NoisyCount(count, noise.Laplace(2.0))}
        return observe(family=families.Bernoulli(), statistic=y, noise=noise.Laplace(2.0), **known)

    for title, pair in {
        "first": (made(15.0), made(16.0)),
        "again": (made(15.0), made(16.0)),
        "other y": (made(15.5), made(16.5)),
        "count": (made(15.0, 50.0), made(16.0, 50.0)),
        "other count": (made(15.0, 51.0), made(16.0, 51.0)),
    }.items():
        problem = Problem(
            pair[0].family, (priors.Beta(1, 1),), tuple(gather([one]) for one in pair)
        )
        conflict(problem, draw(title))
    assert seen.pop("again") == seen["first"]
    every = [value for values in seen.values() for value in values]
    assert len(set(every)) == len(every)


@pytest.mark.parametrize("same", [True, False])
def test_two_parameters_and_categories_contradict_each_other_too(same, rng) -> None:
    prior, bounds = priors.NormalInverseGamma(0.0, 1.0, 3.0, 3.0), Bounds(-6, 6, outside="clamp")
    made = []
    for n, mean in ((3000, 0.0), (2000, 0.0 if same else 2.0)):
        u = (rng.normal(mean, 1, n) / 6).clip(-1, 1)
        y = [u.sum() + rng.laplace(0, 3), (u * u).sum() + rng.laplace(0, 3)]
        law = noise.Laplace([3.0, 3.0])
        made.append(
            observe(
                family=families.Normal(),
                n=n,
                statistic=y,
                noise=law,
                bounds=bounds,
                coordinates="standardised",
            )
        )
    assert (noisewise.infer(made, prior, seed=1).certificate.conflict < 1e-3) != same
    counts = [[500.0, 300.0, 200.0], [1000.0, 602.0, 398.0] if same else [400.0, 1000.0, 600.0]]
    made = [
        observe(family=families.Categorical(3), n=n, statistic=y, noise=noise.Laplace(2.0))
        for n, y in zip((1000, 2000), counts, strict=True)
    ]
    assert (
        noisewise.infer(made, priors.Dirichlet([1.0] * 3), seed=1).certificate.conflict < 1e-3
    ) != same
