"""What `observe_mean` makes of a published number, and what it refuses."""

import re

import numpy as np
import pytest

import noisewise
from noisewise import Bounds, NoisyCount, families, noise

EXPONENTIAL = families.Exponential()


def test_a_mean_is_a_sum_with_noise_n_times_as_large() -> None:
    made = noisewise.observe_mean(
        12.5, n=400, bounds=(0, 60), noise=noise.Laplace(0.3), family=EXPONENTIAL, dataset="d"
    )
    assert made == noisewise.observe(
        family=EXPONENTIAL,
        n=400,
        statistic=5000.0,
        noise=noise.Laplace(120.0),
        bounds=Bounds(0, 60, outside="clamp"),
        dataset="d",
    )


def test_a_share_with_noise_on_a_lattice_is_a_count_with_noise_on_whole_numbers() -> None:
    law = noise.DiscreteLaplace(2 / 49, 1 / 49)
    share = noisewise.observe_mean(15 / 49, n=49, noise=law, family=families.Bernoulli())
    count = noisewise.observe_mean(total=15, n=49, epsilon=0.5, family=families.Bernoulli())
    one, other = (noisewise.infer(made, "weak") for made in (share, count))
    for figure in ("mean", "sd"):
        there = getattr(other, figure)("probability")
        assert getattr(one, figure)("probability") == pytest.approx(there, rel=1e-9)


@pytest.mark.parametrize(
    ("settings", "scale"),
    [
        ({"n": 10, "bounds": (20, 80)}, 60.0),
        ({"count": NoisyCount(10, noise.Laplace(1.0)), "bounds": (20, 80)}, 80.0),
        ({"n": 10, "bounds": Bounds(20, 80, outside="redact")}, 80.0),
    ],
)
def test_epsilon_stands_for_the_sensitivity_of_a_total(
    settings: dict[str, object], scale: float
) -> None:
    made = noisewise.observe_mean(
        total=400.0, epsilon=1, family=families.Normal(variance=9), **settings
    )
    assert made.noise == noise.Laplace(scale)


def test_whole_numbers_have_noise_on_whole_numbers() -> None:
    made = [
        noisewise.observe_mean(total=total, n=50, epsilon=0.5, family=families.Bernoulli())
        for total in (17, 17.25)
    ]
    assert made[0].noise == noise.DiscreteLaplace(2.0, 1.0)
    assert made[1].noise == noise.Laplace(2.0)


def test_likelihood_and_pool_take_it() -> None:
    releases = [
        noisewise.observe_mean(value, n=200, epsilon=1, family=families.Bernoulli(), dataset=name)
        for value, name in ((0.31, "a"), (0.35, "b"), (0.28, "c"))
    ]
    at = np.array([0.2, 0.31, 0.5])
    assert np.argmax(noisewise.likelihood(releases[0]).log(at)) == 1
    assert 0.2 < noisewise.pool(releases).population.mean("mean") < 0.45


GOOD = {"n": 100, "bounds": (0, 60), "epsilon": 1, "family": EXPONENTIAL}


@pytest.mark.parametrize(
    ("value", "changes", "words"),
    [
        (None, {}, "give value, a published mean, or total"),
        (1.0, {"total": 5.0}, "give value, a published mean, or total"),
        (1.0, {"noise": noise.Laplace(1)}, "give noise"),
        (1.0, {"epsilon": None}, "give noise"),
        (1.0, {"epsilon": 0}, "epsilon must be"),
        (1.0, {"n": None}, "a mean needs n"),
        (1.0, {"n": 0}, "a mean needs n"),
        (1.0, {"n": None, "count": NoisyCount(9, noise.Laplace(1))}, "give total= in place"),
        (None, {"total": 5.0, "n": None}, "give count"),
        (1.0, {"bounds": None}, "needs bounds"),
        (1.0, {"family": families.Normal()}, "a mean does not say what the normal family needs"),
        (1.0, {"family": families.Weibull(shape=2.0)}, "what the weibull family needs"),
        (
            None,
            {"total": [5, 6], "family": families.Categorical(["a", "b"]), "bounds": None},
            "where n is public, epsilon does not tell",
        ),
        (float("nan"), {}, "finite"),
        (1.0, {"epsilon": None, "noise": 3.0}, "noise must be a noise"),
    ],
)
def test_what_cannot_be_meant_is_refused(
    value: float | None, changes: dict[str, object], words: str
) -> None:
    with pytest.raises(ValueError, match=re.escape(words)):
        noisewise.observe_mean(value, **{**GOOD, **changes})


def test_numbers_of_numpy_are_numbers() -> None:
    law = noise.Laplace(4.0)
    one = noisewise.observe_mean(0.4, n=np.int64(200), epsilon=1, family=families.Bernoulli())
    assert type(one.n) is int
    assert '"n": 200' in one.to_json()
    counted = noisewise.observe(
        family=families.Bernoulli(),
        count=NoisyCount(np.int64(200), law),
        statistic=[np.float32(80.0)],
        noise=law,
    )
    assert counted.count == NoisyCount(200.0, law)
    with pytest.raises(ValueError, match="n must be"):
        noisewise.observe(family=families.Bernoulli(), n=np.True_, statistic=[1.0], noise=law)
