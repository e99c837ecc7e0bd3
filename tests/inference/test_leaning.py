"""A posterior says where it leans on the weak prior, and on persons with several records."""

from typing import Any

import numpy as np
import pandas as pd
import pytest

import noisewise
from noisewise import Bins, Bounds, families, noise, priors
from noisewise.inference.leaning import FAR, moved

WIDE = Bounds(60, 220, outside="clamp")


def blood_pressure(n: int, epsilon: float, rng: np.random.Generator) -> noisewise.Release:
    """Of sd 15: a tenth of the bounds."""
    u = (rng.normal(120, 15, n).clip(60, 220) - 140) / 80
    law = noise.Laplace(2.25 / epsilon)
    noisy = np.array([u.sum(), (u**2).sum()]) + law.broadcast(2).simulate(rng, 1)[0]
    return noisewise.observe(
        family=families.Normal(),
        n=n,
        statistic=noisy.tolist(),
        noise=law,
        bounds=WIDE,
        coordinates="standardised",
    )


def test_the_weak_prior_is_named_where_it_decides_and_not_where_records_do(
    rng: np.random.Generator,
) -> None:
    few = [noisewise.infer(blood_pressure(500, 0.3, rng), "weak").certificate for _ in range(12)]
    told = [one for one in few if "variance" in one.leaning]
    assert len(told) >= 4  # of 25 others 21 were: fewer than 4 of 12 in one run of 100 000
    assert "variance leans on the weak prior" in told[0].sentence
    many = [noisewise.infer(blood_pressure(20_000, 2.0, rng), "weak") for _ in range(6)]
    assert not any(one.certificate.leaning for one in many)


def test_a_prior_that_is_stated_is_meant(rng: np.random.Generator) -> None:
    stated = "mean ~ norm(loc=120, scale=20), variance ~ lognorm(s=2, scale=400)"
    for prior in (stated, priors.NormalInverseGamma(140, 0.2, 1, 1600)):
        posterior = noisewise.infer(blood_pressure(500, 0.3, rng), prior)
        assert posterior.certificate.leaning == ()


@pytest.mark.parametrize("mean", [0.3, 20.0])
def test_half_the_prior_of_a_rate_against_quadrature(mean: float) -> None:
    """With half the weak prior as the prior: how far the log of the rate moves, in its sds, and
    whether that is told.
    """
    bounds = Bounds(0, 60, outside="clamp")
    release = noisewise.observe(
        family=families.Exponential(),
        n=50,
        statistic=[50 * mean],
        noise=noise.Laplace(60.0),
        bounds=bounds,
    )
    weak = families.Exponential().weak_prior(bounds)
    assert weak is not None
    likelihood = noisewise.likelihood(release)
    psi = np.linspace(-12, 6, 4001)
    log = likelihood.log(np.exp(psi)) + weak.log_density(np.exp(psi)[:, None]) + psi
    half = log - 0.5 * (weak.log_density(np.exp(psi)[:, None]) + psi)
    means, sds = [], []
    for one in (log, half):
        weight = np.exp(one - one.max())
        weight /= weight.sum()
        means.append(weight @ psi)
        sds.append(np.sqrt(weight @ (psi - weight @ psi) ** 2))
    far = abs(means[1] - means[0]) / sds[0]
    assert abs(far - FAR) > 0.12  # else chance would decide
    assert bool(noisewise.infer(release, "weak").certificate.leaning) == (far > FAR)


def test_weights_move_a_mean_as_far_as_they_should(rng: np.random.Generator) -> None:
    x = rng.normal(3.0, 2.0, 200_000)
    # weights e^(x/8) move N(3, 2^2) by 4/8: a quarter of its sd
    assert moved(x, x / 8) == pytest.approx(0.25, abs=0.02)


def table(cells: int, each: float, scale: float) -> Any:
    edges = np.arange(cells + 1.0)
    counts = np.full(cells, each)
    counts[0] += 500
    release = noisewise.observe(
        family=families.Table({"x": Bins(edges)}),
        n=None,
        statistic=counts.tolist(),
        noise=noise.Laplace(scale),
    )
    return noisewise.infer(release, "weak").certificate


def test_a_table_of_cells_that_are_mostly_noise_says_so() -> None:
    assert table(30, 1.0, 7.0).leaning == ("'x'",)
    assert table(6, 200.0, 4.0).leaning == ()


@pytest.mark.parametrize("person", ["who", None])
def test_what_becomes_of_persons_is_said(person: str | None, rng: np.random.Generator) -> None:
    frame = pd.DataFrame({"x": rng.uniform(0, 60, 200), "who": rng.integers(0, 40, 200)})
    family = families.Moments({"x": Bounds(0, 60, outside="clamp")})
    options: dict[str, Any] = {"family": family, "epsilon": 5, "ledger": None, "person": person}
    found = noisewise.mean(noisewise.release(frame, records_per_person=3, **options))
    said = "at most 3 records are kept" if person else "may have up to 3 records"
    assert said in found.meaning
    assert said in found.posterior.certificate.sentence
    if person is None:
        alone = noisewise.mean(noisewise.release(frame, records_per_person=1, **options))
        assert alone.posterior.certificate.persons is None


def regressions(twins: bool, rng: np.random.Generator) -> Any:
    """Of two covariates within -1 and 1, six times: nearly the same one, or two."""
    unit = Bounds(-1, 1, outside="redact")
    family = families.Moments(dict.fromkeys(("a", "b", "y"), unit))
    law = noise.Laplace(3.0)
    releases = []
    for _ in range(6):
        a, b = rng.uniform(-0.7, 0.7, (2, 600))
        b = np.where(twins, 0.98 * a + 0.02 * b, b)
        y = 0.6 * a - 0.5 * b + rng.normal(0, 0.15, 600)
        sums = np.array([one.sum() for one in family.statistic([a, b, y])])
        noisy = sums + law.broadcast(sums.size).simulate(rng, 1)[0]
        releases.append(
            noisewise.observe(family=family, n=600, statistic=noisy.tolist(), noise=law)
        )
    return noisewise.regress_many(releases, "y", ["a", "b"], seed=1)


@pytest.mark.parametrize("twins", [True, False])
def test_coefficients_of_covariates_that_determine_each_other_lean_on_their_prior(
    twins: bool, rng: np.random.Generator
) -> None:
    told = [
        any("expects coefficients near 0" in said for said in one.certificate.warnings)
        for one in regressions(twins, rng)
    ]
    assert all(told) if twins else not any(told)
