"""The exact likelihood against brute force: convolution of the record's law on a fine lattice, or
of its probabilities.
"""

import numpy as np
import pytest
from scipy import special, stats

import noisewise
from noisewise import Bounds, families, noise, priors
from noisewise.inference.likelihood import one_statistic, two_statistics
from noisewise.inference.observations import gather
from noisewise.inference.problem import Problem
from noisewise.model.bounded_statistic import BoundedRecord, record_law

CELLS = 1 << 12


def convolve(probability, n):  # type: ignore[no-untyped-def]
    """The law of a sum of n, by squaring; zeros cost nothing."""
    out, base = np.ones(1), probability
    while n:
        if n & 1:
            out = np.convolve(out, base) if min(out.size, base.size) < 64 else fft(out, base)
        n >>= 1
        if n:
            base = fft(base, base)
    return out


def fft(a, b):  # type: ignore[no-untyped-def]
    size = a.size + b.size - 1
    return np.maximum(np.fft.irfft(np.fft.rfft(a, size) * np.fft.rfft(b, size), size), 0)


def on_lattice(family, theta, bounds, cells=CELLS):  # type: ignore[no-untyped-def]
    """P(t^ in each of `cells` cells), for t(x) = x: (origin, step, probabilities)."""
    low, high = bounds.lower, bounds.upper
    edges = np.linspace(low, high, cells + 1)
    cdf = family.cdf(edges, np.array([[theta]]))[0]
    inside = np.diff(cdf)
    step = (high - low) / cells
    if bounds.outside == "clamp":
        # Atoms at the ends: half a cell off, so the lattice holds them at -1/2 and cells - 1/2 by
        # doubling it.
        probability = np.zeros(2 * cells + 1)
        probability[1::2] = inside
        probability[0] += cdf[0]
        probability[-1] += 1 - cdf[-1]
        return low, step / 2, probability
    offset = round(low / (step / 2))
    probability = np.zeros(offset + 2 * cells + 1)
    probability[offset + 1 :: 2] = inside
    probability[0] += 1 - inside.sum()
    return 0.0, step / 2, probability


CONTINUOUS = [
    (families.Exponential(), (0.5, 2.0, 6.0), Bounds(0.25, 1.25, outside="redact")),
    (families.Exponential(), (0.5, 2.0, 6.0), Bounds(0.25, 1.25, outside="clamp")),
    (families.Normal(variance=1.0), (-1.5, 0.1, 1.0), Bounds(-2, 2, outside="clamp")),
    (families.Gamma(shape=2.5), (1.0, 3.0), Bounds(0.5, 2.5, outside="redact")),
]


@pytest.mark.parametrize(
    ("family", "thetas", "bounds"),
    CONTINUOUS,
    ids=lambda v: getattr(v, "kind", getattr(v, "outside", "")),
)
@pytest.mark.parametrize("n", [1, 2, 3, 7, 40])
@pytest.mark.parametrize(
    "law",
    [noise.Laplace(0.3), noise.Laplace(3.0), noise.Gaussian(0.3), noise.Gaussian(3.0)],
    ids=str,
)
def test_continuous_sums_against_convolution(family, thetas, bounds, n, law) -> None:
    for theta in thetas:
        origin, step, probability = on_lattice(family, theta, bounds)
        sums = convolve(probability, n)
        s = n * origin + step * np.arange(sums.size)
        mean = (sums * s).sum()
        for y in (mean, mean + 1.3, mean - 2.1):
            wanted = np.log((sums * np.exp(law.log_density((y - s)[:, None])[:, 0])).sum())
            observations = gather(
                [noisewise.observe(family=family, n=n, statistic=y, noise=law, bounds=bounds)]
            )
            value, error = observations.exact(np.array([[theta]]), np.zeros(1, dtype=int))
            assert value[0] == pytest.approx(wanted, abs=2e-4 + 3 * error[0])
            assert error[0] < 1e-3


WHOLE = [
    (families.Bernoulli(), (0.001, 0.3, 0.9), None),
    (families.Poisson(), (0.05, 1.2, 6.0), Bounds(0, 8, outside="clamp")),
    (families.Poisson(), (0.05, 1.2, 6.0), Bounds(1, 5, outside="redact")),
    (families.Geometric(), (0.1, 0.5), Bounds(2, 9, outside="clamp")),
]
NOISES = [
    noise.Laplace(0.7),
    noise.Laplace(20.0),
    noise.DiscreteLaplace(0.4, 1.0),
    noise.DiscreteLaplace(15.0, 1.0),
    noise.Gaussian(0.4),
    noise.Gaussian(9.0),
    noise.DiscreteGaussian(0.6, 1.0),
    noise.DiscreteGaussian(8.0, 1.0),
]


@pytest.mark.parametrize(
    ("family", "thetas", "bounds"),
    WHOLE,
    ids=lambda v: getattr(v, "kind", getattr(v, "outside", "")),
)
@pytest.mark.parametrize("n", [1, 2, 10, 300])
@pytest.mark.parametrize("law", NOISES, ids=str)
def test_whole_sums_against_convolution(family, thetas, bounds, n, law) -> None:
    for theta in thetas:
        record = record_law(family, np.array([[theta]]), bounds)
        k = np.round(record.value[0, :, 0]).astype(int)
        probability = np.zeros(k.max() + 1)
        np.add.at(probability, k, record.weight[0])
        sums = np.ones(1)
        for _ in range(n):  # term by term: every probability keeps its digits
            sums = np.convolve(sums, probability)
        s = np.arange(sums.size)
        mean = float(np.round((sums * s).sum()))
        for y in (mean, mean + 3, mean - 4, -25.0):
            terms = law.log_density((y - s)[:, None])[:, 0]
            with np.errstate(divide="ignore"):
                wanted = np.logaddexp.reduce(terms + np.log(sums))
            observations = gather(
                [noisewise.observe(family=family, n=n, statistic=y, noise=law, bounds=bounds)]
            )
            value, _ = observations.exact(np.array([[theta]]), np.zeros(1, dtype=int))
            if wanted > -600:  # beyond, the convolution's probabilities underflow
                assert value[0] == pytest.approx(wanted, abs=3e-4), (theta, y)


@pytest.mark.parametrize("n", [1, 3, 50, 10**4, 10**9, 10**12])
@pytest.mark.parametrize("theta", [1e-6, 0.01, 0.5])
@pytest.mark.parametrize("b", [0.05, 3.0, 1e4, 1e7])
def test_the_bernoulli_at_any_n(n, theta, b) -> None:
    """Against the binomial, summed over its counts; where they are too many, against the normal,
    integrated.
    """
    sd = np.sqrt(n * theta * (1 - theta))
    y = np.round(n * theta + 0.7 * sd + 2)
    if sd < 2000:
        s = np.arange(
            max(0.0, np.floor(n * theta - 12 * sd - 30)),
            min(n, np.ceil(n * theta + 12 * sd + 30)) + 1,
        )
        # SciPy's binomial loses 0.003 at n = 10^12; the Poisson is off by theta there.
        log_mass, tolerance = (
            (stats.poisson.logpmf(s, n * theta) if n > 10**8 else stats.binom.logpmf(s, n, theta)),
            1e-4,
        )
    else:  # skewness of the binomial is all that the normal misses
        wide = np.linspace(-10 * sd, 10 * sd, 400_001) + n * theta
        near = y + b * np.concatenate(
            [-np.geomspace(1e-3, 40, 20_000)[::-1], [0.0], np.geomspace(1e-3, 40, 20_000)]
        )
        s = np.unique(np.clip(np.concatenate([wide, near]), 0, n))
        log_mass = stats.norm.logpdf(s, n * theta, sd) + np.log(np.gradient(s))
        tolerance = 3e-4 + 3 / sd
        # the noise is summed over whole numbers, not integrated
        log_mass += np.log(1 / np.tanh(0.5 / b) / (2 * b))
    wanted = np.logaddexp.reduce(log_mass - np.abs(y - s) / b - np.log(2 * b))
    observations = gather(
        [noisewise.observe(family=families.Bernoulli(), n=n, statistic=y, noise=noise.Laplace(b))]
    )
    value, _ = observations.exact(np.array([[theta]]), np.zeros(1, dtype=int))
    assert value[0] == pytest.approx(wanted, abs=tolerance)


@pytest.mark.parametrize(
    ("n", "b", "y"),
    [(300, 45.8, 2.56), (300, 190.0, 3.0), (10**4, 521.0, 8240.0), (1000, 26.0, 0.9)],
)
def test_the_bernoulli_with_a_probability_next_to_0_or_1(n, b, y) -> None:
    """There a sum is nearly certain: its harmonics fall, then stay. A series that stops where they
    fall is off by 1 % here.
    """
    released = noisewise.observe(
        family=families.Bernoulli(), n=n, statistic=y, noise=noise.Laplace(b)
    )
    problem = Problem(families.Bernoulli(), (priors.Beta(2, 3),), (gather([released]),))
    psi = np.linspace(-30, 30, 121)
    found, error = problem.exact(psi, np.zeros(psi.size, dtype=np.int64))
    s = np.arange(n + 1.0)
    ways = special.gammaln(n + 1) - special.gammaln(s + 1) - special.gammaln(n - s + 1)
    log_sum = (
        ways + s * special.log_expit(psi)[:, None] + (n - s) * special.log_expit(-psi)[:, None]
    )
    wanted = special.logsumexp(log_sum - np.abs(y - s) / b, axis=1) - np.log(2 * b)
    assert np.abs(found - wanted).max() < 1e-5
    assert error.max() < 1e-5


@pytest.mark.parametrize("outside", ["clamp", "redact"])
@pytest.mark.parametrize("n", [1, 2, 5, 60])
def test_two_statistics_against_simulation(outside, n, rng) -> None:
    """(x, x^2) of the normal: the mean of the noise density over simulated sums, within 6 of its
    standard errors.
    """
    bounds, theta = Bounds(-1, 2, outside=outside), np.array([[0.4, 0.7]])
    family, size = families.Normal(), 400_000
    x = family.simulate(rng, np.repeat(theta, max(1, size // 100), axis=0), n * 100).reshape(-1, n)
    t = np.clip(x, -1, 2) if outside == "clamp" else np.where((x >= -1) & (x <= 2), x, 0.0)
    sums = np.stack([t.sum(axis=1), (t * t).sum(axis=1)], axis=1)
    for law in (noise.Laplace([1.0, 2.0]), noise.Laplace([8.0, 9.0]), noise.Gaussian([1.0, 1.5])):
        for y in (sums[0], sums.mean(axis=0) + np.array([1.0, -0.5])):
            density = np.exp(law.log_density(y - sums).sum(axis=1))
            error = density.std() / np.sqrt(len(density)) / density.mean()
            observations = gather(
                [noisewise.observe(family=family, n=n, statistic=y, noise=law, bounds=bounds)]
            )
            value, rest = observations.exact(theta, np.zeros(1, dtype=int))
            assert value[0] == pytest.approx(
                np.log(density.mean()), abs=6 * error + 1e-3 + min(rest[0], 0.01)
            )


@pytest.mark.parametrize("law", ["laplace", "gaussian"])
def test_values_that_share_a_step(law) -> None:
    """A family of one's own whose sum is a multiple of 3: |phi| is 1 again at that harmonic."""

    class Tripled(families.Bernoulli):
        kind = f"tripled-{law}"

        def statistic(self, x, xp):
            return (3 * x,)

        def natural(self, theta):
            return families.Bernoulli.natural(self, theta) / 3

        def log_partition(self, eta):
            return families.Bernoulli.log_partition(self, 3 * eta)

    n, p, scale, y = 200, 0.22, 0.3, 134.2
    made = noise.Laplace(scale) if law == "laplace" else noise.Gaussian(scale)
    release = noisewise.observe(family=Tripled(), n=n, statistic=y, noise=made)
    s = np.arange(n + 1)
    log_noise = (
        stats.laplace.logpdf(y, 3 * s, scale)
        if law == "laplace"
        else stats.norm.logpdf(y, 3 * s, scale)
    )
    value, error = gather([release]).exact(np.array([[p]]), np.zeros(1, dtype=int))
    assert value[0] == pytest.approx(
        np.logaddexp.reduce(stats.binom.logpmf(s, n, p) + log_noise), abs=1e-6
    )
    assert error[0] < 1e-5


@pytest.mark.parametrize("outside", ["clamp", "redact"])
@pytest.mark.parametrize("n", [5, 4000])
@pytest.mark.parametrize(
    "law",
    [noise.Laplace(0.05), noise.Laplace(1.0), noise.Gaussian(0.3), noise.Gaussian(5.0)],
    ids=str,
)
def test_a_series_that_is_cut_says_how_far_off_it_is(outside, n, law, monkeypatch) -> None:
    """Cut far too early, against the whole series: the stated error is never too small."""
    theta, group, seen = np.array([[0.5], [2.0], [6.0]]), np.zeros(3, dtype=int), []
    for share in (0.45, 0.5, 0.58):
        observations = gather(
            [
                noisewise.observe(
                    family=families.Exponential(),
                    n=n,
                    statistic=n * share,
                    noise=law,
                    bounds=Bounds(0.25, 1.25, outside=outside),
                )
            ]
        )
        whole, _ = observations.exact(theta, group)
        for most in (3, 7, 15, 31):
            with monkeypatch.context() as patch:
                patch.setattr(one_statistic, "MOST", most)
                cut, error = observations.exact(theta, group)
            off = np.abs(np.expm1(np.clip(cut - whole, -50, 50)))
            assert (off <= error + 1e-5).all()
            seen.append(off.max())
    assert max(seen) > 1e-3


@pytest.mark.parametrize("outside", ["clamp", "redact"])
@pytest.mark.parametrize("n", [5, 400])
@pytest.mark.parametrize(
    "law", [noise.Laplace([0.3, 8.0]), noise.Laplace([8.0, 0.3]), noise.Gaussian([1, 1.5])], ids=str
)
def test_a_cut_series_of_two_statistics_says_how_far_off_it_is(
    outside, n, law, monkeypatch
) -> None:
    """Within a factor of 3: what lies beyond is judged by what lies at the rim."""
    theta, group = np.array([[0.4, 0.7], [0.0, 0.3], [1.2, 1.5]]), np.zeros(3, dtype=int)
    release = noisewise.observe(
        family=families.Normal(),
        n=n,
        statistic=[0.4 * n, 0.8 * n],
        noise=law,
        bounds=Bounds(-1, 2, outside=outside),
    )
    observations = gather([release])
    whole, error = observations.exact(theta, group)
    assert (error <= 3e-4).all()  # what a posterior of two parameters needs
    for furthest in (2, 4, 8):
        with monkeypatch.context() as patch:
            patch.setattr(two_statistics, "FURTHEST", furthest)
            cut, error = observations.exact(theta, group)
        off = np.abs(np.expm1(cut - whole))
        assert (off <= 3 * error).all()
        assert furthest > 2 or off.max() > 0.02


@pytest.mark.parametrize("step", [2, 3, 10])
@pytest.mark.parametrize(
    ("kind", "scales"),
    [(noise.DiscreteLaplace, (0.4, 1.5, 4.0)), (noise.DiscreteGaussian, (0.4, 1.5, 2.9))],
    ids=["laplace", "gaussian"],
)
def test_rounded_sums_of_whole_numbers_against_enumeration(step, kind, scales) -> None:
    """Noise that sees the single multiples of its step; y near and far."""
    n = 100
    s = np.arange(n + 1)
    rounded = step * np.floor(s / step + 0.5)
    for scale in scales:
        law = kind(scale * step, float(step))
        for y in (0, 4 * step, step * round(50 / step), -10 * step):
            release = noisewise.observe(
                family=families.Bernoulli(), n=n, statistic=float(y), noise=law
            )
            log_noise = law.log_density((y - rounded)[:, None])[:, 0]
            for p in (0.02, 0.3, 0.9):
                wanted = np.logaddexp.reduce(stats.binom.logpmf(s, n, p) + log_noise)
                value, _ = gather([release]).exact(np.array([[p]]), np.zeros(1, dtype=int))
                if wanted > -100:  # further out a tilt over one block has no digits left
                    assert value[0] == pytest.approx(wanted, abs=1e-4), (scale, y, p)


def test_a_cut_series_of_an_unknown_number_of_records_says_how_far_off_it_is(monkeypatch) -> None:
    """The errors at each n, weighted by how likely it is."""
    theta, group = np.array([[0.5], [2.0], [6.0]]), np.zeros(3, dtype=int)
    release = noisewise.observe(
        family=families.Exponential(),
        count=noisewise.NoisyCount(5.0, noise.Laplace(0.5)),
        statistic=2.5,
        noise=noise.Laplace(0.05),
        bounds=Bounds(0.25, 1.25, outside="clamp"),
    )
    observations = gather([release])
    whole, error = observations.exact(theta, group)
    assert (error < 1e-3).all()
    for most in (3, 7):
        with monkeypatch.context() as patch:
            patch.setattr(one_statistic, "MOST", most)
            cut, error = observations.exact(theta, group)
        off = np.abs(np.expm1(cut - whole))
        assert off.max() > 1e-3
        assert (off <= error).all()
        assert error[0] < 0.9  # not the worst of any n, which is 1


@pytest.mark.parametrize("expected", [0.5, 5.0, 100.0])
def test_rare_events_among_more_records_than_have_a_power_state_a_large_error(expected) -> None:
    """n = 2^50: the normal approximation is all there is, and the Poisson tells how far off it is.
    With as many events as not it is exact.
    """
    n, b = 2.0**50, 0.3 * np.sqrt(expected)
    for away in (0.0, 1.0, 2.0):
        y = expected + away * np.sqrt(expected)
        release = noisewise.observe(
            family=families.Bernoulli(), n=int(n), statistic=y, noise=noise.Laplace(b)
        )
        value, error = gather([release]).exact(np.array([[expected / n]]), np.zeros(1, dtype=int))
        s = np.arange(1000)
        terms = stats.poisson.logpmf(s, expected) - np.abs(y - s) / b - np.log(2 * b)
        off = abs(np.expm1(value[0] - np.logaddexp.reduce(terms)))
        assert off < 2 * error[0]
        assert error[0] == pytest.approx(min(1.0, expected**-0.5), rel=1e-6)
    half = noisewise.observe(
        family=families.Bernoulli(), n=int(n), statistic=n / 2, noise=noise.Laplace(5.0)
    )
    assert gather([half]).exact(np.array([[0.5]]), np.zeros(1, dtype=int))[1][0] < 1e-6


@pytest.mark.parametrize(("n", "lattice"), [(100, False), (10**4, True)])
def test_a_lattice_of_two_statistics_is_one_where_the_records_are_many(n, lattice) -> None:
    """500 points over the range: rounding moves the mean of a square near 0 by (1/500)^1.5 = 9e-5
    of it, nothing beside a spread of 0.3/sqrt(n) = 0.03, but not beside 0.003.
    """
    release = noisewise.observe(
        family=families.Normal(),
        n=n,
        statistic=[0.0, n * 0.096],
        noise=noise.DiscreteLaplace([40.0, 40.0], [8 / 500, 16 / 500]),
        bounds=Bounds(-4, 4, outside="clamp"),
    )
    steps = gather([release]).record.steps
    assert steps == (pytest.approx((8 / 500, 16 / 500)) if lattice else None)


@pytest.mark.parametrize("step", [2, 3, 4])
@pytest.mark.parametrize("kind", [noise.DiscreteLaplace, noise.DiscreteGaussian])
def test_the_normal_approximation_of_rounded_sums_tends_to_the_exact_one(step, kind) -> None:
    """A sum of 10^4 coins has an sd of 50, against which an even step's bias of one half shows."""
    n, p = 10**4, np.array([[0.49], [0.5], [0.51]])
    for y in (4900, 5000, 5100):
        release = noisewise.observe(
            family=families.Bernoulli(),
            n=n,
            statistic=float(step * round(y / step)),
            noise=kind(1.5 * step, float(step)),
        )
        observations = gather([release])
        exact, _ = observations.exact(p, np.zeros(3, dtype=int))
        found = observations.collapsed(p, np.zeros(3, dtype=int))
        # but for a constant: on a lattice a probability is a density times the step
        np.testing.assert_allclose(found - found[1], exact - exact[1], rtol=0, atol=0.01)


@pytest.mark.parametrize("law", [noise.Laplace, noise.Gaussian])
@pytest.mark.parametrize("outside", ["clamp", "redact"])
def test_a_bound_of_the_likelihood_is_one_and_close(law, outside, rng) -> None:
    """Near where y is expected, and some twenty sds away."""
    for family, bounds, center in (
        (families.Exponential(), (0, 60), 0.1),
        (families.Poisson(), (0, 30), 4.0),
        (families.Gamma(shape=2.0), (0, 40), 0.3),
    ):
        for n in (1, 7, 300, 10**5):
            own = Bounds(*bounds, outside=outside)
            theta = center * np.exp(rng.normal(0, 2 / np.sqrt(n), (12, 1)))
            record = BoundedRecord(family, own, False, None)
            mean = float(record.moments(np.array([[center]]))[0][0, 0])
            release = noisewise.observe(
                family=family, n=n, statistic=n * mean, noise=law(own.upper / 2), bounds=own
            )
            found, group = gather([release]), np.zeros(12, dtype=np.int64)
            value, bound = found.exact(theta, group)[0], found.bound(theta, group)
            assert (bound >= value - 1e-6).all()
            # the gaps between quadrature nodes count n times
            assert (bound <= value + 4 + 0.1 * np.sqrt(n) + 0.1 * np.abs(value)).all()


def test_a_likelihood_over_an_unknown_n_is_the_whole_sum(rng) -> None:
    """Two statistics of which the integral is taken at few n: against all of them."""
    law, count = noise.Laplace(3.0), noisewise.NoisyCount(70.4, noise.Laplace(2.7))
    release = noisewise.Release(
        families.Normal(),
        None,
        (-12.0, 9.0),
        law.broadcast(2),
        bounds=Bounds(0, 60, outside="redact"),
        coordinates="standardised",
        count=count,
    )
    found = gather([release])
    theta = np.stack([rng.uniform(15, 35, 20), rng.uniform(3, 15, 20) ** 2], axis=1)
    mean, covariance = found.record.moments(theta)
    n = np.arange(1.0, 400.0)
    whole = []
    for m, c in zip(mean, covariance, strict=True):
        given = found.shape.log_with_normals(
            np.array([-12.0, 9.0]) - n[:, None] * m,
            n[:, None, None] * c,
            np.broadcast_to(3.0, (n.size, 2)),
        )
        whole.append(np.logaddexp.reduce(given - np.abs(70.4 - n) / 2.7))
    value = found.collapsed(theta, np.zeros(20, dtype=np.int64))
    gap = value - np.array(whole)
    assert np.ptp(gap) < 2e-3  # but for a constant


@pytest.mark.parametrize("law", [noise.Laplace(0.2), noise.Gaussian(0.2)], ids=lambda one: one.kind)
@pytest.mark.parametrize(("outside", "counts_as"), [("redact", 0.0), ("clamp", 1.0)])
@pytest.mark.parametrize("n", [1, 2, 9])
def test_where_everybody_lies_beyond_the_bounds_all_count_alike(law, outside, counts_as, n) -> None:
    """At sds that leave nothing within the bounds, or nothing that a float holds."""
    release = noisewise.observe(
        family=families.Normal(),
        n=n,
        statistic=[n * counts_as - 0.13, n * counts_as + 0.08],
        noise=law,
        bounds=Bounds(0, 100, outside=outside),
        coordinates="standardised",
    )
    theta = np.array([[107.0, sd**2] for sd in (0.5, 0.2, 0.177, 1e-4)])
    value, error = gather([release]).exact(theta, np.zeros(4, dtype=np.int64))
    wanted = law.broadcast(2).log_density(np.array([[-0.13, 0.08]])).sum()
    assert value == pytest.approx(np.full(4, wanted), abs=1e-6)
    assert (error < 1e-6).all()


def test_two_records_of_two_statistics_against_their_pairs(rng) -> None:
    bounds, law = Bounds(0, 100, outside="clamp"), noise.Laplace(0.7)
    release = noisewise.observe(
        family=families.Normal(),
        n=2,
        statistic=[-0.5, 0.9],
        noise=law,
        bounds=bounds,
        coordinates="standardised",
    )
    for mean, sd in ((30.0, 12.0), (90.0, 40.0), (-10.0, 8.0)):
        # 2000 quantiles of a record: every pair of them is as likely as any other
        x = stats.norm.ppf((np.arange(2000) + 0.5) / 2000, mean, sd).clip(0, 100)
        u = (x - 50) / 50
        sums = [u[:, None] + u, (u * u)[:, None] + u * u]
        log = [-np.abs(y - s) / 0.7 - np.log(1.4) for y, s in zip((-0.5, 0.9), sums, strict=True)]
        wanted = np.log(np.exp(log[0] + log[1]).mean())
        value = gather([release]).exact(np.array([[mean, sd**2]]), np.zeros(1, dtype=np.int64))[0]
        assert value[0] == pytest.approx(wanted, abs=2e-3)
