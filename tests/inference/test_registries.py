"""A noise and a method of one's own: one class each, and every part of the library knows them."""

import re
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pytest
from scipy import integrate, special, stats

import noisewise
from noisewise import Bounds, NoisyCount, families, priors
from noisewise.cli.main import run
from noisewise.errors import UnsupportedCombination
from noisewise.inference import methods
from noisewise.inference.methods.base import Method, Request
from noisewise.inference.methods.grids import Exact
from noisewise.mechanism.noise import REGISTRY, Noise, Shape
from noisewise.mechanism.noise.base import settle


class StudentShape(Shape):
    """Student's t with 3 degrees of freedom: tails that no tilt can hold."""

    variance: ClassVar[float] = 3.0

    def log_kernel(self, z, scale):  # type: ignore[no-untyped-def]
        return -2 * np.log1p((z / scale) ** 2 / 3)

    def log_constant(self, scale):  # type: ignore[no-untyped-def]
        return stats.t.logpdf(0, 3) - np.log(scale)

    def reach(self, fall, scale):  # type: ignore[no-untyped-def]
        return scale * np.sqrt(3 * np.expm1(fall / 2))


@pytest.fixture
def student():  # type: ignore[no-untyped-def]
    @dataclass(frozen=True, slots=True)
    class Student(Noise):
        kind: ClassVar[str] = "student"
        shape: ClassVar[Shape] = StudentShape()
        scale: object

        def __post_init__(self) -> None:
            settle(self, "it is that of a t with 3 degrees of freedom")

        def log_density(self, z):  # type: ignore[no-untyped-def]
            return stats.t.logpdf(z / self.scales, 3) - np.log(self.scales)

        def cdf(self, z):  # type: ignore[no-untyped-def]
            return stats.t.cdf(z / self.scales, 3)

        def characteristic(self, omega):  # type: ignore[no-untyped-def]
            w = np.sqrt(3) * np.abs(omega * self.scales)
            return (1 + w) * np.exp(-w)

        def simulate(self, rng, size):  # type: ignore[no-untyped-def]
            return rng.standard_t(3, (size, self.scales.size)) * self.scales

    yield Student
    del REGISTRY["student"]


def agree(posterior, name, theta, log_density):  # type: ignore[no-untyped-def]
    """The posterior's distribution function against one by the trapezoid rule on a fine grid.

    The difference from the collapsed likelihood is interpolated, here a bump of 0.02 in the log,
    which costs up to 7e-4; with the noise 1 % wider the worst of these cases is off by 1.6e-3.
    """
    weight = np.exp(log_density - log_density.max())
    cdf = integrate.cumulative_trapezoid(weight, theta, initial=0)
    cdf /= cdf[-1]
    q = np.array([0.05, 0.25, 0.5, 0.75, 0.95])
    assert np.interp(posterior.quantile(name, q), theta, cdf) == pytest.approx(q, abs=1e-3)


@pytest.mark.parametrize("y", [31.0, -6.0])
def test_a_fifth_noise_on_a_sum_of_whole_numbers(student, y) -> None:
    release = noisewise.observe(
        family=families.Bernoulli(), n=60, statistic=y, noise=student(scale=4.0)
    )
    theta = np.linspace(1e-6, 1 - 1e-6, 20_001)
    s = np.arange(61)
    noise = stats.t.pdf((y - s) / 4.0, 3)
    log = np.log(stats.binom.pmf(s, 60, theta[:, None]) @ noise) + stats.beta.logpdf(theta, 2, 3)
    posterior = noisewise.infer(release, priors.Beta(2, 3))
    assert posterior.method == "exact"
    agree(posterior, "probability", theta, log)


@pytest.mark.parametrize(
    ("n", "y"), [(1, 3.0), (3, 14.0), pytest.param(40, 230.0, marks=pytest.mark.thorough)]
)
def test_a_fifth_noise_on_a_sum_of_numbers(student, n, y) -> None:
    """Exponential records clamped to [2, 12]: their sum's law by convolution on a fine lattice."""
    release = noisewise.observe(
        family=families.Exponential(),
        n=n,
        statistic=y,
        noise=student(scale=3.0),
        bounds=Bounds(2, 12, outside="clamp"),
    )
    cells, width = 2000, 10 / 2000
    edges = 2 + width * np.arange(cells + 1)
    middle = edges[:-1] + width / 2
    size = 1 << int(np.ceil(np.log2(n * (cells + 1))) + 1)
    rates = np.geomspace(0.003, 3.0, 1201)
    total = 2 * n + width * np.arange(size)
    noise = stats.t.pdf((y - total) / 3.0, 3)
    log = np.empty(rates.size)
    for i, rate in enumerate(rates):
        mass = np.zeros(cells + 1)
        inside = -np.diff(np.exp(-rate * edges))
        share = (middle - 2) / width - np.floor((middle - 2) / width)
        mass[:-1] += inside * (1 - share)
        mass[1:] += inside * share
        mass[0] += -np.expm1(-2 * rate)
        mass[-1] += np.exp(-12 * rate)
        law = np.fft.irfft(np.fft.rfft(mass, size) ** n, size)
        log[i] = np.log(max(law @ noise, 1e-300))
    log += stats.gamma.logpdf(rates, 2, scale=1 / 8)
    posterior = noisewise.infer(release, priors.Gamma(2, 8))
    assert posterior.method == "exact"
    agree(posterior, "rate", rates, log)


def test_a_fifth_noise_under_the_normal_approximation_and_an_unknown_n(student) -> None:
    """Of the collapsed likelihood the density is known: a normal plus a t, by quadrature."""
    shape = student.shape
    for z, variance, scale in ((0.3, 2.0, 1.0), (-8.0, 1e-6, 2.0), (40.0, 100.0, 0.1)):
        sd = np.sqrt(variance)

        def integrand(e: float, z: float = z, sd: float = sd, scale: float = scale) -> float:
            return float(stats.norm.pdf(e, 0, sd) * stats.t.pdf((z - e) / scale, 3) / scale)

        points = [p for p in (z - scale, z, z + scale) if abs(p) < 9 * sd]
        wanted = integrate.quad(integrand, -9 * sd, 9 * sd, points=points or None, limit=400)[0]
        found = shape.log_with_normal(*map(np.array, (z, variance, scale)))
        assert found == pytest.approx(np.log(wanted), abs=1e-7)
    release = noisewise.observe(
        family=families.Bernoulli(),
        count=NoisyCount(20.0, student(scale=2.0)),
        statistic=8.0,
        noise=student(scale=1.0),
    )
    theta, n = np.linspace(1e-5, 1 - 1e-5, 2001), np.arange(1, 2001)
    log = np.zeros(theta.size)
    s = np.arange(300)
    noise = stats.t.pdf(8.0 - s, 3)
    heights = stats.t.pdf((20.0 - n) / 2.0, 3)
    total = np.zeros(theta.size) + stats.t.pdf(10.0, 3) * stats.t.pdf(8.0, 3)
    for size, height in zip(n[:400], heights[:400], strict=True):
        few = s[: size + 1]
        pmf = np.exp(
            special.gammaln(size + 1) - special.gammaln(few + 1) - special.gammaln(size - few + 1)
            + few * np.log(theta[:, None]) + (size - few) * np.log1p(-theta[:, None])
        )  # fmt: skip
        total += height * (pmf @ noise[: size + 1])
    log = np.log(total) + stats.beta.logpdf(theta, 2, 2)
    posterior = noisewise.infer(release, priors.Beta(2, 2))
    # the flat prior of n and the heavy tail leave n beyond 400 a share of the mass: 10^-3
    weight = np.exp(log - log.max())
    cdf = np.cumsum(weight) / weight.sum()
    q = np.array([0.1, 0.5, 0.9])
    assert np.interp(posterior.quantile("probability", q), theta, cdf) == pytest.approx(q, abs=6e-3)


def test_methods_that_a_fifth_noise_does_not_supply_say_so(student) -> None:
    counted = noisewise.observe(
        family=families.Categorical(3), n=30, statistic=[9.0, 12.0, 7.0], noise=student(scale=2.0)
    )
    with pytest.raises(UnsupportedCombination, match="student noise"):
        noisewise.infer(counted, priors.Dirichlet([1, 1, 1]))
    release = noisewise.observe(
        family=families.Bernoulli(), n=60, statistic=20.0, noise=student(scale=4.0)
    )
    with pytest.raises(UnsupportedCombination, match="normal of random variance"):
        noisewise.infer(release, priors.Beta(1, 1), method="gibbs")


@pytest.fixture
def doubled():  # type: ignore[no-untyped-def]
    """A method that counts every record twice: wrong, and easy to recognise."""

    class Doubled(Method):
        name: ClassVar[str] = "doubled"
        summary: ClassVar[str] = "every record counted twice"
        density: ClassVar[bool] = True

        def refusal(self, problem):  # type: ignore[no-untyped-def]
            return None if problem.family.kind == "bernoulli" else "doubled serves the bernoulli."

        def reason(self, problem):  # type: ignore[no-untyped-def]
            return "twice as sure"

        def solve(self, problem, request: Request):  # type: ignore[no-untyped-def]
            known = problem.observations[0]
            twice = type(known)(*(getattr(known, f) for f in known.__slots__))
            object.__setattr__(twice, "n", 2 * known.n)
            object.__setattr__(twice, "y", 2 * known.y)
            object.__setattr__(twice, "scale", 2 * known.scale)
            return Exact().solve(type(problem)(problem.family, problem.priors, (twice,)), request)

    made = Doubled()
    methods.REGISTRY.insert(0, made)
    yield made
    methods.REGISTRY.remove(made)


def release_of_bernoulli():  # type: ignore[no-untyped-def]
    return noisewise.observe(
        family=families.Bernoulli(), n=1000, statistic=300.0, noise=noisewise.noise.Laplace(2.0)
    )


def test_a_method_in_the_registry_is_chosen_named_and_explained(doubled, capsys) -> None:
    release, prior = release_of_bernoulli(), priors.Beta(1, 1)
    chosen = noisewise.infer(release, prior)
    assert chosen.method == "doubled"
    assert chosen.certificate.reason == "twice as sure"
    plain = noisewise.infer(release, prior, method="exact")
    # the prior's two pseudo-records are not doubled: 1004 / 2004 of the variance, and some noise
    assert plain.sd("probability") / chosen.sd("probability") == pytest.approx(1.39, abs=0.01)
    with pytest.raises(UnsupportedCombination, match="doubled serves the bernoulli"):
        noisewise.infer(
            noisewise.observe(
                family=families.Poisson(),
                n=10,
                statistic=20.0,
                noise=noisewise.noise.Laplace(2.0),
                bounds=Bounds(0, 9, outside="clamp"),
            ),
            priors.Gamma(2, 1),
            method="doubled",
        )
    assert run(["infer", "--help"]) == 0
    shown = re.sub(r"[\s│]+", " ", capsys.readouterr().out)
    assert "doubled: every record counted twice" in shown


def test_every_method_is_named_once_and_says_what_it_does() -> None:
    assert methods.names() == ("auto", "exact", "collapsed", "gibbs", "naive")
    for name in methods.names()[1:]:
        assert f"{name}: " in methods.describe()
    with pytest.raises(UnsupportedCombination, match="use auto, exact, collapsed, gibbs, naive"):
        noisewise.infer(release_of_bernoulli(), priors.Beta(1, 1), method="nuts")
