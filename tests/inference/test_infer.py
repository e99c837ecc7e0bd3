"""What `infer` and `infer_many` take, give and refuse."""

import subprocess
import sys
from typing import Any

import numpy as np
import pytest

import noisewise
from inference import oracle
from noisewise import Bounds, NoisyCount, Release, families, noise, priors
from noisewise.errors import NoisewiseError
from noisewise.inference import infer as infer_module


@pytest.mark.parametrize("family", ["bernoulli", "exponential", "normal"])
def test_many_give_the_figures_of_a_loop(family, rng) -> None:
    if family == "bernoulli":
        prior = priors.Beta(2, 5)
        releases = [
            noisewise.observe(
                family=families.Bernoulli(),
                n=int(n),
                statistic=float(n * 0.3 + k),
                noise=noise.Laplace(float(b)),
            )
            for k, (n, b) in enumerate(
                zip(10 ** rng.uniform(0, 12, 40), 10 ** rng.uniform(-1, 3, 40), strict=True)
            )
        ]
    elif family == "exponential":
        prior = priors.Gamma(3, 2)
        releases = [
            noisewise.observe(
                family=families.Exponential(),
                n=int(n),
                statistic=float(n * 0.4),
                noise=noise.Laplace(float(b)),
                bounds=Bounds(0, 1.5, outside="redact"),
            )
            for n, b in zip(10 ** rng.uniform(0, 4, 25), 10 ** rng.uniform(-1, 2, 25), strict=True)
        ]
    else:
        prior = priors.NormalInverseGamma(0, 2, 4, 3)
        releases = [
            noisewise.observe(
                family=families.Normal(),
                n=100,
                statistic=[float(s), 60.0],
                noise=noise.Laplace([3.0, 6.0]),
                bounds=Bounds(-4, 4, outside="clamp"),
            )
            for s in (-20, 0, 30)
        ]
    many = noisewise.infer_many(releases, prior, seed=3)
    rows = many.table()
    for index, release in enumerate(releases):
        one = noisewise.infer(release, prior, seed=3)
        own = [row for row in rows if row["release"] == index]
        for row, wanted, posterior in zip(own, one.summary(), many[index].summary(), strict=True):
            for column in ("mean", "5%", "50%", "95%"):
                assert row[column] == pytest.approx(wanted[column], abs=1e-4 * wanted["sd"])
                assert posterior[column] == pytest.approx(wanted[column], abs=1e-4 * wanted["sd"])
            assert row["sd"] == pytest.approx(wanted["sd"], rel=1e-4)


def counted(law: noise.Noise, value: float = 60.0, statistic: float = 24.0) -> Release:
    return noisewise.observe(
        family=families.Bernoulli(),
        count=NoisyCount(value, law),
        statistic=statistic,
        noise=noise.Laplace(2.0),
    )


def waits(**change: Any) -> Release:
    asked = {"n": 40, "statistic": 20.0, "noise": noise.DiscreteLaplace(3.0, 1.0)}
    bounds = Bounds(0, 5, outside="clamp")
    return noisewise.observe(
        **{"family": families.Exponential(), "bounds": bounds} | asked | change
    )


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (waits(), waits(noise=noise.DiscreteLaplace(3.0, 2.0))),
        (waits(), waits(noise=noise.DiscreteGaussian(3.0, 1.0))),
        (waits(), waits(noise=noise.Laplace(3.0))),
        (waits(), waits(bounds=Bounds(0, 5, outside="redact"))),
        (waits(), waits(bounds=Bounds(0, 4, outside="clamp"))),
        (waits(), waits(family=families.Gamma(shape=2.0))),
        (counted(noise.Laplace(9.0)), counted(noise.Gaussian(9.0))),
        (
            counted(noise.Laplace(9.0)),
            noisewise.observe(
                family=families.Bernoulli(), n=60, statistic=24.0, noise=noise.Laplace(2.0)
            ),
        ),
    ],
    ids=["step", "normal", "lattice", "outside", "bounds", "family", "noise of n", "public n"],
)
def test_releases_that_differ_in_kind_are_each_inferred_from_as_alone(one, other) -> None:
    """In whatever order they come; and what differs does make another posterior."""
    prior = priors.Gamma(3, 2) if one.bounds is not None else priors.Beta(2, 5)
    alone = [noisewise.infer(release, prior).summary()[0] for release in (one, other)]
    assert max(abs(alone[0][c] - alone[1][c]) for c in ("mean", "sd")) > 3e-3 * alone[0]["sd"]
    for order in ((0, 1), (1, 0)):
        many = noisewise.infer_many([(one, other)[k] for k in order], prior)
        for posterior, k in zip(many, order, strict=True):
            row = posterior.summary()[0]
            for column in ("mean", "sd", "5%", "50%", "95%"):
                assert row[column] == pytest.approx(alone[k][column], abs=1e-4 * alone[k]["sd"])


def test_the_groups_of_many_do_not_share_their_randomness(monkeypatch) -> None:
    """Solved in batches of one, two equal releases still get chains of their own; and a seed
    repeats them.
    """
    monkeypatch.setattr(infer_module, "BATCH", 1)
    release = noisewise.observe(
        family=families.Categorical(3), n=30, statistic=[9.0, 9, 9], noise=noise.Laplace(3.0)
    )
    runs = [
        noisewise.infer_many([release] * 2, priors.Dirichlet([1] * 3), method="gibbs", seed=1)
        for _ in "ab"
    ]
    means = [[p.mean("probabilities")[0] for p in run] for run in runs]
    assert means[0][0] != means[0][1]
    assert means[0] == means[1]
    many = noisewise.infer_many([release] * 2, priors.Dirichlet([1] * 3), seed=1)
    draws = [p.draws["probabilities"] for p in many]
    assert (draws[0] != draws[1]).any()


def test_one_prior_for_each_of_many() -> None:
    release = noisewise.observe(
        family=families.Bernoulli(), n=0, statistic=0.0, noise=noise.Laplace(1.0)
    )
    many = noisewise.infer_many([release, release], [priors.Beta(1, 3), priors.Beta(6, 2)])
    assert [p.mean("probability") for p in many] == pytest.approx([0.25, 0.75], abs=1e-4)


def test_what_a_posterior_offers() -> None:
    case = oracle.CASES[6]
    posterior = noisewise.infer(oracle.release_of(case), oracle.prior_of(case), draws=500, seed=5)
    assert posterior.names == ("mean", "variance")
    assert posterior.draws["mean"].shape == (500,)
    assert isinstance(posterior.mean("mean"), float)
    assert isinstance(posterior.quantile("mean", 0.5), float)
    assert posterior.quantile("mean", [0.1, 0.5]).shape == (2,)
    low, high = posterior.interval("variance", 0.9)
    assert low == pytest.approx(posterior.quantile("variance", 0.05))
    assert high > low
    assert [row["name"] for row in posterior.summary()] == ["mean", "variance", "sd"]
    assert posterior.derived == ("sd",)
    assert "95%" in str(posterior.summary())
    again = noisewise.infer(oracle.release_of(case), oracle.prior_of(case), draws=500, seed=5)
    assert np.array_equal(again.draws["mean"], posterior.draws["mean"])
    tree = posterior.to_arviz()
    assert tree["posterior"]["mean"].shape == (4, 125)
    figure = posterior.plot()
    assert [axis.get_xlabel() for axis in figure.axes] == ["mean", "variance", "sd"]


def test_a_categorical_posterior_has_k_numbers() -> None:
    case = oracle.CASES[2]
    posterior = noisewise.infer(oracle.release_of(case), oracle.prior_of(case), draws=100, seed=5)
    assert posterior.draws["probabilities"].shape == (100, 3)
    assert posterior.mean("probabilities").shape == (3,)
    assert posterior.quantile("probabilities", [0.1, 0.9]).shape == (2, 3)
    assert posterior.mean("probabilities").sum() == pytest.approx(1)
    assert posterior.plot().axes[0].get_xlabel().startswith("probability")


GOOD = {"family": families.Bernoulli(), "n": 10, "statistic": 3.0, "noise": noise.Laplace(1.0)}


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda r: noisewise.infer(r, priors.Gamma(1, 1)), "takes a beta prior"),
        (lambda r: noisewise.infer(r, priors.Beta(1, 1), method="magic"), "unknown method"),
        (lambda r: noisewise.infer(r, priors.Beta(1, 1), draws=0), "draws must be"),
        (
            lambda r: noisewise.infer(r, priors.Beta(1, 1), method="gibbs", variant="own"),
            "unknown variant",
        ),
        (lambda r: noisewise.infer([r, r], priors.Beta(1, 1)), "given twice"),
        (lambda r: noisewise.infer([], priors.Beta(1, 1)), "no release"),
        (lambda r: noisewise.infer("wait.json", priors.Beta(1, 1)), "must be a noisewise release"),
        (lambda r: noisewise.infer_many([r], [priors.Beta(1, 1)] * 2), "2 priors for 1"),
        (
            lambda r: noisewise.infer_many([r, "wait.json"], priors.Beta(1, 1)),
            "must be a noisewise release",
        ),
        (
            lambda r: noisewise.infer(r, priors.Beta([1.0], 1)),
            "alpha of the beta prior must be one number",
        ),
        (lambda r: noisewise.infer(r, priors.Beta(1, 1)).mean("rate"), "no parameter 'rate'"),
        (
            lambda r: noisewise.infer(r, priors.Beta(1, 1)).quantile("probability", 1.5),
            "between 0 and 1",
        ),
    ],
)
def test_refusals_say_what_to_do(call, words) -> None:
    with pytest.raises(ValueError, match=words):
        call(noisewise.observe(**GOOD))


def test_requests_that_make_no_sense_are_refused_in_one_line() -> None:
    release = noisewise.observe(**GOOD, dataset="visits")
    other = noisewise.observe(**(GOOD | {"statistic": 4.0}), dataset="visits")
    with pytest.raises(NoisewiseError, match="one dataset, 'visits'"):
        noisewise.infer([release, other], priors.Beta(1, 1))
    poisson = noisewise.observe(
        family=families.Poisson(),
        n=10,
        statistic=3.0,
        noise=noise.Laplace(1.0),
        bounds=Bounds(0, 5, outside="clamp"),
    )
    with pytest.raises(NoisewiseError, match="different families"):
        noisewise.infer([release, poisson], priors.Beta(1, 1))
    with pytest.raises(NoisewiseError, match="knows redacted records only"):
        noisewise.infer(poisson, priors.Gamma(1, 1), method="gibbs", variant="paper")
    off = noisewise.observe(
        family=families.Bernoulli(), n=10, statistic=3.5, noise=noise.DiscreteLaplace(1.0, 1.0)
    )
    with pytest.raises(NoisewiseError, match="no multiple of the noise's step"):
        noisewise.infer(off, priors.Beta(1, 1))
    three = noisewise.observe(
        family=families.Categorical(3), n=9, statistic=[3.0, 3, 3], noise=noise.Laplace(1.0)
    )
    with pytest.raises(NoisewiseError, match="needs 3 numbers"):
        noisewise.infer(three, priors.Dirichlet([1, 1]))
    with pytest.raises(NoisewiseError, match="does not serve the categorical"):
        noisewise.infer(three, priors.Dirichlet([1, 1, 1]), method="collapsed")


def test_inference_needs_no_curator() -> None:
    code = """
import sys
class Block:
    def find_spec(self, name, path=None, target=None):
        if name.split('.')[0] in ('duckdb', 'narwhals', 'opendp') or name.startswith('noisewise.curator'):
            raise ImportError(name)
sys.meta_path.insert(0, Block())
import noisewise
from noisewise import families, noise, priors
release = noisewise.observe(family=families.Bernoulli(), n=100, statistic=30.0, noise=noise.Laplace(5.0))
posterior = noisewise.infer(release, priors.Beta(1, 1))
print(posterior.summary(), posterior.certificate.sentence)
"""  # noqa: E501
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "probability" in done.stdout
