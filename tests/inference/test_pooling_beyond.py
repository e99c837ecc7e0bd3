"""What a pooled posterior says of the records beyond the bounds, of missing ones, of persons and of
two explanations: what `infer` says of the same releases, and what only many groups can tell.
"""

import numpy as np
import pandas as pd
import pytest

import noisewise
from noisewise import Bounds, families, noise, pool
from noisewise.artifact import Release

VISITS = Bounds(0, 60, outside="clamp")


def of_normal(x: np.ndarray, name: str) -> Release:
    """Released as a curator would do it."""
    u = (np.clip(x, 0, 60) - VISITS.middle) / VISITS.radius
    return noisewise.observe(
        family=families.Normal(),
        n=x.size,
        statistic=[u.sum(), (u * u).sum()],
        noise=noise.Laplace(3.0),
        bounds=VISITS,
        coordinates="standardised",
        dataset=name,
    )


def of_exponential(total: float, n: int, bounds: Bounds = VISITS, scale: float = 30.0) -> Release:
    return noisewise.observe(
        family=families.Exponential(),
        n=n,
        statistic=[total],
        noise=noise.Laplace(scale),
        bounds=bounds,
    )


def test_groups_of_visits_lean_on_a_tail_that_is_not_there(rng: np.random.Generator) -> None:
    """Half of the records are 0: a normal puts most of them below. One group has none."""
    zeros = [
        np.where(rng.random(800) < 0.5, 0.0, rng.negative_binomial(1, 0.14, 800)) for _ in "abcd"
    ]
    releases = [of_normal(x, name) for x, name in zip(zeros, "abcd", strict=True)]
    releases.append(of_normal(rng.normal(30, 5, 800), "fine"))
    pooled = pool(releases, seed=1)
    alone = noisewise.infer_many(releases, "weak", seed=1)
    for one, infer in zip(pooled.groups, alone, strict=True):
        here, there = one.certificate.beyond, infer.certificate.beyond
        assert here is not None
        assert there is not None
        assert here.below == pytest.approx(there.below, abs=0.02)
        assert here.leans == there.leans
    (said,) = [one for one in pooled.certificate.warnings if "family's shape" in one]
    assert said.startswith("what is said of a, b, c, d ")
    assert "% below 0" in said
    assert "families.Moments" in said
    assert said in pooled.population.certificate.sentence
    warned = [
        any("of the records the family expects" in w for w in g.certificate.warnings)
        for g in pooled.groups
    ]
    assert warned == [True] * 4 + [False]


def test_normals_within_their_bounds_lean_on_nothing(rng: np.random.Generator) -> None:
    releases = [of_normal(rng.normal(middle, 5, 500), f"{middle}") for middle in (24, 27, 30, 33)]
    pooled = pool(releases, seed=1)
    assert pooled.certificate.warnings == ()
    assert all(one.certificate.warnings == () for one in pooled.groups)


def test_what_no_group_can_tell_the_population_can() -> None:
    """Of exponential records with a mean of 12, e^-5 lie beyond 60: a third of an sd of a group's
    rate, and two sds of that of sixty groups that are alike.
    """
    n, rate = 2000, 1 / 12
    total = n * -np.expm1(-60 * rate) / rate
    within = rate / -np.expm1(-60 * rate)  # if nobody lies beyond, the clamped mean is the mean
    few = pool([of_exponential(total, n)] * 1, seed=1)
    assert not any("family's shape" in one for one in few.certificate.warnings)
    many = pool([of_exponential(total, n) for _ in range(60)], seed=1)
    (said,) = many.certificate.warnings
    assert said.startswith("what is said of ")
    assert "the population leans" in said
    assert f"would be about {within:.3g}"[:-1] in said
    assert f"instead of {rate:.3g}"[:-1] in said


def test_groups_without_bounds_or_records_beyond_take_no_second_look(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def never(*_: object, **__: object) -> None:
        raise AssertionError("looked again")

    monkeypatch.setattr("noisewise.inference.pooling.beyond.curves", never)
    coins = [
        noisewise.observe(
            family=families.Bernoulli(), n=n, statistic=[n / 3], noise=noise.Laplace(2.0)
        )
        for n in (50, 80, 200)
    ]
    assert pool(coins, seed=1).certificate.warnings == ()
    short = [of_exponential(n * 1.0, n, scale=5.0) for n in (300, 400, 500)]
    assert pool(short, seed=1).certificate.warnings == ()


def test_two_explanations_are_named() -> None:
    """Under redact a small sum is of short waits, or of long ones of which most are left out."""
    bounds = Bounds(0, 10, outside="redact")
    releases = [of_exponential(1500.0, 1000, bounds, 5.0) for _ in range(2)]
    alone = noisewise.infer(releases[0], "weak", seed=1)
    assert alone.certificate.peaks == 2
    pooled = pool(releases, seed=1)
    assert [one.certificate.peaks for one in pooled.groups] == [2, 2]
    assert any("separate peaks" in one for one in pooled.certificate.warnings)


def test_missing_records_and_persons_are_told() -> None:
    table = pd.DataFrame(
        {
            "wait": [4.0, np.nan, 9.0, 30.0] * 50,
            "ward": ["a", "b"] * 100,
            "patient": np.arange(200) // 3,
        }
    )
    releases = noisewise.release(
        table,
        column="wait",
        family=families.Exponential(),
        bounds=VISITS,
        epsilon=5,
        by="ward",
        groups=["a", "b"],
        sizes="released",
        person="patient",
        records_per_person=2,
        ledger=None,
    )
    pooled = pool(releases, seed=1)
    for certificate in (pooled.certificate, pooled.population.certificate):
        assert "records without a value count as 30" in certificate.sentence
        assert "of each person at most 2 records are kept" in certificate.sentence
