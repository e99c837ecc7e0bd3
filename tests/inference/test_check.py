"""Checks of a family by a histogram of the same records: calibration, parts, refusals, command."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy import stats

import noisewise
from cases import CASES
from chance import FALSE_ALARM
from noisewise import Bins, Bounds, NoisyCount, families, noise, observe, priors
from noisewise.cli.main import run
from noisewise.errors import NoisewiseError
from noisewise.inference.again import (
    Drawn,
    Weighed,
    infer_again,
    numbers_of,
    variance_of,
)
from noisewise.inference.infer import infer
from noisewise.inference.observations import gather
from noisewise.inference.problem import Problem
from noisewise.inference.same_records import Binned
from noisewise.study.checks import CheckSetting, p_values, releases

CLAMP = Bounds(0, 60, outside="clamp")
EVEN = Bins(np.linspace(0, 60, 13))
EXPONENTIAL = CheckSetting(
    families.Exponential(), priors.Gamma(2, 20), CLAMP, EVEN, 300, 0.5, 0.2, truth=(0.1,)
)
NORMAL = CheckSetting(families.Normal(), "weak", CLAMP, EVEN, 1000, 0.5, 0.5, truth=(25.0, 64.0))
KINDS = [
    pytest.param(case, outside, id=f"{case.name}-{outside}")
    for case in CASES
    if case.family.statistic_kind == "sums"
    for outside in ("clamp", "redact")
]


def test_a_right_model_is_rejected_at_its_rate(rng) -> None:
    """Of 60 checks at 5 %, where the rate may be 7 %, at most 16 reject, and the mean p-value lies
    within 0.18 of 1/2: either fails in one run in a million.
    """
    p = p_values(EXPONENTIAL, 60, rng, replicates=39)
    assert (p <= 0.05).sum() <= stats.binom.ppf(1 - FALSE_ALARM, 60, 0.07) == 16
    assert abs(p.mean() - 0.5) < stats.norm.isf(FALSE_ALARM / 2) / np.sqrt(12 * 60)


def test_a_wrong_model_is_found(rng) -> None:
    """A log-normal as normal; at epsilon 0.2 bench/check_calibration.py finds it in 50 of 50."""
    wrong = replace(NORMAL, records=lambda rng, n: rng.lognormal(3, 0.5, n))
    assert p_values(wrong, 2, rng, replicates=99) == pytest.approx(0.01)


def test_a_wrong_model_of_whole_numbers_is_found_where_n_is_not_public(rng) -> None:
    wrong = CheckSetting(
        families.Poisson(),
        "weak",
        Bounds(0, 30, outside="redact"),
        Bins([0, 1, 2, 4, 6, 9, 14, 30]),
        2000,
        1.0,
        1.0,
        neighbours="add_remove",
        records=lambda rng, n: rng.negative_binomial(1, 0.2, n).astype(float),
    )
    assert p_values(wrong, 1, rng, replicates=99) == pytest.approx(0.01)


def binned_of(case, outside):
    bounds = case.bounds(outside)[0]
    low, high = case.family.support if bounds is None else (bounds.lower, bounds.upper)
    edges = Bins([low, low + 0.3 * (high - low), low + 0.6 * (high - low), high])
    release = observe(
        family=case.family,
        n=400,
        statistic=np.zeros(case.family.dimension),
        noise=noise.Laplace(1.0),
        bounds=bounds,
        coordinates="standardised" if case.family.polynomial else "plain",
    )
    return edges, Binned.of(release, gather([release]), edges)


@pytest.mark.parametrize(("case", "outside"), KINDS)
def test_bins_hold_the_share_that_they_are_said_to(case, outside, rng) -> None:
    """Against records in their own units, cut as a table cuts them: one false alarm in a million
    over all bins and families.
    """
    edges, binned = binned_of(case, outside)
    theta = case.theta(rng, 4)
    shares = binned.shares(theta)
    x = case.family.simulate(rng, theta, 20_000)
    ends = np.array(edges.edges)
    for row, expected in zip(x, shares, strict=True):
        counts, _ = np.histogram(row, ends)
        p = stats.binomtest
        for count, share in zip(counts, np.clip(expected, 1e-12, 1 - 1e-12), strict=True):
            assert p(int(count), 20_000, share).pvalue > FALSE_ALARM / (len(KINDS) * 12)


@pytest.mark.parametrize(("case", "outside"), KINDS)
def test_very_many_records_are_drawn_alike(case, outside, rng, monkeypatch) -> None:
    """By bins, as very many are, or one by one: means and covariances of sums and counts together,
    each within 6 of its standard errors (one false alarm in 10^6 over all).
    """
    _, binned = binned_of(case, outside)
    theta = np.repeat(case.theta(rng, 1), 3000, axis=0)
    n = np.full(3000, 400.0)
    one_by_one = np.hstack(binned.draw(theta, n, rng))
    monkeypatch.setattr("noisewise.inference.same_records.MOST_DRAWN", 0)
    by_bins = np.hstack(binned.draw(theta, n, rng))
    spread = np.maximum(one_by_one.std(axis=0), 1e-9 * (1 + np.abs(one_by_one).max(axis=0)))
    away = (one_by_one.mean(axis=0) - by_bins.mean(axis=0)) / spread
    assert np.abs(away).max() < 6.5 * np.sqrt(2 / 3000)
    first, second = (np.cov((one / spread).T) for one in (one_by_one, by_bins))
    assert np.abs(first - second).max() < 6.5 * np.sqrt(2 * 2.5 / 3000)


@pytest.mark.parametrize(
    "setting",
    [
        EXPONENTIAL,
        replace(EXPONENTIAL, neighbours="add_remove"),
        NORMAL,
        replace(NORMAL, bounds=Bounds(0, 60, outside="redact"), normal=True),
    ],
)
def test_inference_anew_is_inference(setting, rng) -> None:
    """The weights of the release itself give the shares that its posterior gives."""
    release, _ = releases(setting, rng)
    posterior = infer(release, setting.prior, seed=1)
    draws = posterior.draw(4000, rng)
    theta = np.stack([draws[name] for name in posterior.names], axis=1)
    observations = gather([release])
    binned = Binned.of(release, observations, setting.bins)
    prior = noisewise.inference.problem.prior_for(release, setting.prior)
    problem = Problem(release.family, (prior,), (observations,))
    count = None if release.count is None else np.array([release.count.value])
    found = infer_again(problem, binned, Drawn(observations.y, count), theta, rng)
    exact = binned.shares(theta)
    mean = found.weight[0] @ found.shares
    assert np.abs(mean - exact.mean(axis=0)) == pytest.approx(0, abs=0.4 * exact.std(axis=0).max())
    variance = found.weight[0] @ (found.shares - mean) ** 2
    assert np.sqrt(variance.sum() / exact.var(axis=0).sum()) == pytest.approx(1, abs=0.25)


@pytest.mark.parametrize("setting", [NORMAL, replace(NORMAL, neighbours="add_remove")])
def test_what_is_predicted_is_a_mixture_of_normals(setting, rng) -> None:
    """Against SciPy's density, for releases of the same public or noisy number of records."""
    release, histogram = releases(setting, rng)
    observations = gather([release])
    weighed = Weighed(rng.dirichlet(np.ones(13), 6)[:, :-1], rng.dirichlet(np.ones(6), 3))
    bins = np.array(histogram.statistic) + rng.normal(0, 30, (3, 12))
    variance = variance_of(histogram.noise)
    count = None if release.count is None else np.full(3, release.count.value)
    n, spread = numbers_of(observations, Drawn(bins, count))
    assert n.tolist() == [setting.n if release.count is None else release.count.value] * 3
    assert (spread > 0) == (release.count is not None)
    log = weighed.log_density(bins, n, spread, variance)
    for own, weights, found in zip(bins, weighed.weight, log, strict=True):
        density = 0.0
        for p, weight in zip(weighed.shares, weights, strict=True):
            covariance = n[0] * (np.diag(p) - np.outer(p, p)) + spread * np.outer(p, p)
            law = stats.multivariate_normal(n[0] * p, covariance + np.diag(variance))
            density += weight * law.pdf(own)
        assert found == pytest.approx(np.log(density) + 6 * np.log(2 * np.pi), rel=1e-9)


def test_numbers_of_records_are_drawn_given_the_count(rng) -> None:
    """Where the statistic says nothing of n, n is the noisy count less its noise, and 0 at least.
    Mean and sd within 5 standard errors: one false alarm in 10^6.
    """
    release = observe(
        family=families.Exponential(),
        count=NoisyCount(500.0, noise.Laplace(20.0)),
        statistic=5000.0,
        noise=noise.Laplace(1e6),
        bounds=CLAMP,
    )
    n = gather([release]).sizes(np.full((5000, 1), 0.1), rng)
    sd = 20 * np.sqrt(2)
    assert n.mean() == pytest.approx(500, abs=5 * sd / np.sqrt(5000))
    assert n.std() == pytest.approx(sd, abs=5 * sd * np.sqrt(5 / 4 / 5000))
    assert np.all(n == np.round(n))


@pytest.mark.parametrize("law", [noise.Laplace(3.0), noise.Gaussian(3.0)])
def test_the_variance_of_noise(law) -> None:
    assert variance_of(law)[0] == pytest.approx(18 if law.kind == "laplace" else 9, rel=1e-4)


def table(columns, **more):
    family = families.Table(columns)
    made = observe(family=family, statistic=[10.0] * family.dimension, noise=noise.Laplace(1))
    return replace(made, **more)


RELEASE = replace(
    observe(
        family=families.Exponential(), n=30, statistic=300.0, noise=noise.Laplace(1), bounds=CLAMP
    ),
    column="wait",
    dataset="visits",
)


@pytest.mark.parametrize(
    ("release", "histogram", "said"),
    [
        (RELEASE, table({"age": EVEN}), "column 'wait', the histogram of 'age'"),
        (RELEASE, table({"wait": Bins([0, 1, 2])}), "run from 0 to 2"),
        (RELEASE, table({"wait": EVEN}, dataset="other"), "different records: dataset"),
        (RELEASE, table({"wait": EVEN}, group=("ward", "a")), "different records: group"),
        (RELEASE, table({"wait": EVEN, "sex": ["f", "m"]}), "several columns"),
        (RELEASE, table({"wait": ["short", "long"]}), "no bins"),
        (RELEASE, RELEASE, "no histogram; release one of the same records with --table wait:0:30"),
        (table({"wait": EVEN}), RELEASE, "swap the two"),
        (table({"wait": EVEN}), table({"wait": EVEN}), "any shares"),
    ],
)
def test_refusals_say_what_to_do(release, histogram, said) -> None:
    with pytest.raises(NoisewiseError, match=said) as refusal:
        noisewise.check(release, histogram, "weak")
    assert "\n" not in str(refusal.value)


def test_moments_have_no_shape_to_check() -> None:
    moments = observe(
        family=families.Moments({"wait": CLAMP}), n=9, statistic=[0, 1], noise=noise.Laplace(1)
    )
    with pytest.raises(NoisewiseError, match="assume no shape"):
        noisewise.check(moments, table({"wait": EVEN}), "weak")


def test_one_seed_one_answer(rng) -> None:
    pair = releases(EXPONENTIAL, rng)
    first, again, other = (
        noisewise.check(*pair, EXPONENTIAL.prior, replicates=99, seed=seed) for seed in (1, 1, 2)
    )
    assert first.p_value == again.p_value
    assert first.table() == again.table()
    assert first.table() != other.table()


def test_the_command_line(tmp_path: Path, capsys, rng) -> None:
    frame = pd.DataFrame({"wait": rng.exponential(8, 800)})
    wait, bins, picture = (str(tmp_path / name) for name in ("w.json", "h.json", "check.svg"))
    noisewise.release(
        frame,
        column="wait",
        family=families.Exponential(),
        bounds=CLAMP,
        epsilon=1,
        ledger=None,
        out=wait,
    )
    histogram = families.Table({"wait": Bins([0, 5, 10, 20, 60])})
    noisewise.release(frame, family=histogram, epsilon=1, ledger=None, out=bins)
    asked = ["check", wait, bins, "--prior", "weak", "--seed", "1", "--replicates", "99"]
    assert run([*asked, "--plot", picture]) == 0
    assert "p = " in capsys.readouterr().out
    assert (tmp_path / "check.svg").stat().st_size > 1000
    assert run([*asked, "--json"]) == 0
    held = json.loads(capsys.readouterr().out)
    assert len(held["bins"]) == 4
    assert 0.01 <= held["p_value"] <= 1

    for refused, said in (
        ([bins, wait, "--prior", "weak"], "swap"),
        ([wait, bins], "--prior weak"),
    ):
        assert run(["check", *refused]) == 2
        error = capsys.readouterr().err
        assert error.count("\n") == 1
        assert said in error
