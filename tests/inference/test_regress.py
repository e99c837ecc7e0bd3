"""Regressions and joint posteriors from noisy moments: references, limits, batches, refusals."""

import csv
import json
from pathlib import Path

import numpy as np
import pytest
from scipy import stats

import noisewise
from noisewise import Bounds, NoisyCount, Release, families, noise, observe, priors
from noisewise.cli.main import run
from noisewise.errors import NoisewiseError
from noisewise.inference.certificate import BAD_RHAT
from noisewise.study import regressions
from noisewise.study.regressions import RegressionSetting, truth, uniforms

CASES = {
    case["name"]: case
    for case in json.loads((Path(__file__).parents[1] / "oracle" / "columns.json").read_text())
}
UNIT = Bounds(-1, 1, outside="redact")


def released(case):
    columns = {
        f"c{j}": UNIT if numeric else ["no", "yes"] for j, numeric in enumerate(case["numeric"])
    }
    law = noise.REGISTRY[case["noise"]["kind"]](case["noise"]["scale"])
    family = families.Moments(columns)
    return observe(family=family, n=case["n"], statistic=case["statistic"], noise=law)


def check(found, reference):
    """Within 0.05 sds and 5 %, and what the reference's own draws and ours leave open."""
    mean, sd = np.array(reference["mean"]), np.array(reference["sd"])
    slack = 4 / np.sqrt(reference["ess"]) + 4 / np.sqrt(2000)
    assert np.abs(found.mean(axis=0) - mean) / sd == pytest.approx(0, abs=0.05 + slack)
    assert found.std(axis=0) / sd == pytest.approx(1, abs=0.05 + slack)


@pytest.mark.parametrize("name", [n for n, c in CASES.items() if c["kind"] == "regression"])
def test_regressions_agree_with_references(name) -> None:
    case, release = CASES[name], released(CASES[name])
    outcome = f"c{len(case['numeric']) - 1}"
    on = [one.name for one in release.family.parts[:-1]]
    prior = priors.Linear(case["sd"], case["shape"], case["scale"])
    posterior = noisewise.regress(release, outcome, on, prior=prior, seed=1)
    check(np.column_stack([posterior.draws[n] for n in posterior.names[:-1]]), case["reference"])


@pytest.mark.parametrize("name", [n for n, c in CASES.items() if c["kind"] == "joint"])
def test_joint_normals_agree_with_references(name) -> None:
    case = CASES[name]
    prior = priors.NormalInverseWishart(0.0, case["strength"], case["degrees"], case["scale"])
    draws = noisewise.infer(released(case), prior, seed=1).draws
    columns = [draws["mean"], draws["sd"], np.atleast_2d(draws["correlation"].T).T]
    check(np.column_stack(columns), case["reference"])


def table(rng, n=400):
    """Three covariates, one of them a factor of three levels, and an outcome; and their sums."""
    family = families.Moments(
        {
            "y": Bounds(-3, 5, outside="redact"),
            "a": Bounds(0, 10, outside="redact"),
            "ward": ["p", "q", "r"],
            "b": Bounds(-1, 1, outside="redact"),
        },
        less=0.5,
    )
    a, b, ward = rng.uniform(1, 9, n), rng.beta(2, 5, n) - 0.3, rng.integers(0, 3, n)
    y = 0.5 + 0.2 * a - 1.0 * b + 0.4 * (ward == 2) + 0.5 * rng.normal(size=n)
    z = [(y - 1) / 4, (a - 5) / 5, 1.0 * (ward == 1), 1.0 * (ward == 2), b]
    sums = np.array([column.sum() for column in family.statistic(z)])
    design = np.column_stack([np.ones(n), z[1], z[2], z[3], z[4]])
    return family, sums, design, z[0]


def test_without_noise_it_is_the_posterior_of_the_records(rng) -> None:
    """beta given sigma^2 is normal, and sigma^2 is integrated numerically."""
    family, sums, x, y = table(rng)
    release = observe(family=family, n=len(y), statistic=sums, noise=noise.Laplace(1e-4))
    posterior = noisewise.regress(release, "y", ["a", "ward", "b"], seed=1)

    def given(variance):
        spread = np.linalg.inv(np.eye(5) + x.T @ x / variance)
        return spread @ x.T @ y / variance, spread

    grid = np.linspace(0.005, 0.05, 400)
    log = []
    for v in grid:
        mean, spread = given(v)
        fit = y @ y / v - mean @ np.linalg.solve(spread, mean)
        log.append(
            -0.5 * fit
            - len(y) / 2 * np.log(v)
            + 0.5 * np.linalg.slogdet(spread)[1]
            + stats.invgamma(1, scale=0.25).logpdf(v)
        )
    weight = np.exp(np.array(log) - max(log))
    weight /= weight.sum()
    means, spreads = zip(*map(given, grid), strict=True)
    mean = weight @ np.array(means)
    sd = np.sqrt(weight @ np.array([np.diag(s) for s in spreads]))
    # in the columns' own units
    slopes = 4 * mean[1:] / np.array([5, 1, 1, 1])
    assert [posterior.mean(n) for n in ("a", "ward[q]", "ward[r]", "b")] == pytest.approx(
        slopes.tolist(), abs=0.1 * 4 * sd[1:].min()
    )
    own_sd = 4 * sd[1:] / np.array([5, 1, 1, 1])
    found = [posterior.sd(n) for n in ("a", "ward[q]", "ward[r]", "b")]
    assert found == pytest.approx(own_sd.tolist(), rel=0.08)
    sigma = 4 * float(weight @ np.sqrt(grid))
    assert posterior.mean("sigma") == pytest.approx(sigma, rel=0.01)
    # 400 records with a sigma of 0.125 against a prior at 0.5: half of it moves sigma by half an sd
    (warning,) = posterior.certificate.warnings
    assert "sigma and r2 lean on their prior" in warning


def test_with_nothing_but_noise_it_is_the_prior_within_the_box(rng) -> None:
    setting = RegressionSetting(12, noise.Laplace(1e6), 1, (2,))
    simulated = [truth(setting, rng)[:2] for _ in range(3000)]
    release = Release(
        setting.family, 12, (0.0,) * setting.family.dimension, setting.noise.broadcast(8)
    )
    posterior = noisewise.regress(release, "y", setting.on, seed=1)
    ess = posterior.certificate.ess
    assert ess is not None
    for j, name in enumerate(("intercept", "f0[1]", "x0", "sigma")):
        prior = np.array([beta[j] if j < 3 else sigma for beta, sigma in simulated])
        for q in (0.1, 0.5, 0.9):
            below = (prior < posterior.quantile(name, q)).mean()
            error = np.sqrt(q * (1 - q) * (1 / 3000 + 1 / ess))
            assert abs(below - q) < 4.5 * error  # false alarms below 10^-4 over all
    assert "mostly prior" in posterior.certificate.sentence


def halves(rng, scales):
    """One table released as a whole and as two parts, with noise of these scales."""
    family, sums, x, y = table(rng)
    z = [y, *x[:, 1:].T]
    first = np.array([one[:150].sum() for one in family.statistic(z)])
    law = noise.Laplace(scales[0])
    whole = observe(family=family, n=400, statistic=sums, noise=law)
    parts = [
        observe(family=family, n=n, statistic=own, noise=noise.Laplace(scale))
        for n, own, scale in ((150, first, scales[0]), (250, sums - first, scales[1]))
    ]
    return whole, parts


def test_parts_without_noise_are_the_whole(rng) -> None:
    whole, parts = halves(rng, (1e-3, 1e-3))
    alone = noisewise.regress(whole, "y", ["a", "ward"], seed=1)
    both = noisewise.regress(parts, "y", ["a", "ward"], seed=2)
    for name in alone.names:
        assert both.mean(name) == pytest.approx(alone.mean(name), abs=0.12 * alone.sd(name))
        assert both.sd(name) == pytest.approx(alone.sd(name), rel=0.1)
    assert "taken to be of different records" in both.certificate.assumptions[-1]
    one, two = (noisewise.infer(given, "weak", seed=3) for given in (whole, parts))
    for name in one.names:
        assert two.mean(name) == pytest.approx(one.mean(name), abs=0.12 * one.sd(name).max())
        assert two.sd(name) == pytest.approx(one.sd(name), rel=0.1)


def test_a_hopeless_release_takes_nothing_from_a_good_one(rng) -> None:
    """Adding up their sums would: the noise of the worst would drown the other."""
    _, parts = halves(rng, (3.0, 1e5))
    alone = noisewise.regress(parts[0], "y", ["a"], seed=1)
    both = noisewise.regress(parts, "y", ["a"], seed=2)
    for name in ("intercept", "a", "sigma"):
        assert both.mean(name) == pytest.approx(alone.mean(name), abs=0.2 * alone.sd(name))
        assert both.sd(name) == pytest.approx(alone.sd(name), rel=0.15)


def test_releases_of_the_same_records_do_not_combine(rng) -> None:
    family, sums, _, y = table(rng)
    pair = [
        observe(family=family, n=len(y), statistic=sums + k, noise=noise.Laplace(1.0), dataset="d")
        for k in range(2)
    ]
    for ask in (
        lambda: noisewise.regress(pair, "y", ["a"]),
        lambda: noisewise.infer(pair, "weak"),
    ):
        with pytest.raises(NoisewiseError, match="the same records"):
            ask()
    counted = Release(
        family, len(y), tuple(sums), pair[0].noise, count=NoisyCount(390.0, noise.Laplace(1.0))
    )
    with pytest.raises(NoisewiseError, match="either kind"):
        noisewise.regress([counted, pair[0]], "y", ["a"])
    coarse = observe(family=family, n=len(y), statistic=sums, noise=noise.DiscreteLaplace(1.0, 2.0))
    with pytest.raises(NoisewiseError, match="coarser than its scale"):
        noisewise.regress(coarse, "y", ["a"])


def test_a_sharp_count_is_a_public_number_and_a_vague_one_is_less(rng) -> None:
    family, sums, _, y = table(rng)
    y_noisy, n = sums + rng.laplace(0, 5, sums.size), len(y)
    law = noise.Laplace(5.0).broadcast(sums.size)
    known = noisewise.regress(Release(family, n, tuple(y_noisy), law), "y", ["a"], seed=1)
    for most, scale in ((None, 0.01), (n + 50, 0.01), (n + 50, 40.0)):
        count = NoisyCount(float(n), noise.Laplace(scale))
        made = Release(family, most, tuple(y_noisy), law, count=count)
        found = noisewise.regress(made, "y", ["a"], seed=2)
        assert 0.5 < found.sd("a") / known.sd("a") < 2
        if scale < 1:
            assert found.sd("a") == pytest.approx(known.sd("a"), rel=0.1)
            assert found.mean("a") == pytest.approx(known.mean("a"), abs=0.15 * known.sd("a"))


def test_an_unknown_number_of_few_records_is_summed_over(rng) -> None:
    """A mean alone, against weighted draws from the prior with every whole N from 2 to 10."""
    size = 2_000_000
    n = rng.integers(2, 11, size)
    beta = rng.standard_normal(size)
    sigma = np.sqrt(0.25 / rng.standard_gamma(1.0, size))
    mean = beta + sigma / np.sqrt(n) * rng.standard_normal(size)
    square = mean**2 + sigma**2 * 2 * rng.standard_gamma((n - 1) / 2) / n
    y, count, scale = np.array([3.0, 0.5]), 6.0, 1.5  # the sum; squares less N/2
    miss = np.abs(y[0] - n * mean) + np.abs(y[1] - n * (square - 0.5)) + np.abs(count - n)
    weight = np.where(square <= 1, np.exp(-miss / scale), 0.0)
    weight /= weight.sum()
    centre = [weight @ one for one in (beta, sigma)]
    spread = [
        np.sqrt(weight @ (one - c) ** 2) for one, c in zip((beta, sigma), centre, strict=True)
    ]
    assert 1 / (weight**2).sum() > 10_000
    family = families.Moments({"y": UNIT}, less=0.5)
    law = noise.Laplace(scale)
    made = Release(family, 10, tuple(y), law.broadcast(2), count=NoisyCount(count, law))
    found = noisewise.regress(made, "y", [], draws=8000, seed=1)
    for name, c, s in zip(("intercept", "sigma"), centre, spread, strict=True):
        assert found.mean(name) == pytest.approx(c, abs=0.1 * s)  # N is real here, from 1 to 10
        assert found.sd(name) == pytest.approx(s, rel=0.08)


def test_columns_that_are_not_asked_for_play_no_part(rng) -> None:
    """Their statistics may say anything."""
    family, sums, _, y = table(rng)
    statistic = sums + rng.laplace(0, 5, sums.size)
    strange = statistic.copy()
    asked = {family.numbers.index(name) for name in ("y", "a")}
    for j in range(5):
        if j not in asked:
            strange[j] = 1e9
    for place, (j, k) in enumerate(family.products):
        if not {j, k} <= asked:
            strange[5 + place] = -1e9
    law = noise.Laplace(5.0)
    one, other = (
        noisewise.regress(
            observe(family=family, n=len(y), statistic=s, noise=law), "y", ["a"], draws=500, seed=1
        )
        for s in (statistic, strange)
    )
    for name in one.names:
        assert one.mean(name) == pytest.approx(other.mean(name), abs=0.3 * one.sd(name))


def test_groups_in_one_batch_are_what_they_are_alone(rng) -> None:
    family, sums, _, y = table(rng)
    releases = [
        observe(
            family=family,
            n=len(y) + k,
            statistic=sums + rng.laplace(0, 3, sums.size),
            noise=noise.Laplace(3.0),
        )
        for k in range(3)
    ]
    many = noisewise.regress_many(releases, "y", ["a", "b"], seed=1)
    alone = noisewise.regress(releases[1], "y", ["a", "b"], seed=5)
    for name in alone.names:
        assert many[1].mean(name) == pytest.approx(alone.mean(name), abs=0.25 * alone.sd(name))
        assert many[1].sd(name) == pytest.approx(alone.sd(name), rel=0.2)
    assert {row["release"] for row in many.table()} == {0, 1, 2}


@pytest.mark.parametrize("n", [10, 10**5, 10**12])
@pytest.mark.parametrize("scale", [1e-6, 3.0, 1e9])
def test_every_size_and_noise_has_a_posterior(n, scale, rng) -> None:
    family, sums, _, y = table(rng, 1000)
    law = noise.Gaussian(scale)
    statistic = sums * (n / len(y)) + law.broadcast(sums.size).simulate(rng, 1)[0]
    release = observe(family=family, n=n, statistic=statistic, noise=law)
    posterior = noisewise.regress(release, "y", ["a", "b"], draws=500, seed=1)
    rows = posterior.table()
    assert np.isfinite([row[c] for row in rows for c in ("mean", "sd", "5%", "95%")]).all()
    assert posterior.certificate.rhat is not None
    assert posterior.certificate.rhat < BAD_RHAT


@pytest.mark.parametrize("absurd", [0.0, 1e6, pytest.param(-1e6, marks=pytest.mark.thorough)])
def test_moments_that_no_table_has_still_give_a_posterior(absurd, rng) -> None:
    family, sums, _, _ = table(rng, 100)
    statistic = np.full(sums.size, absurd)
    release = observe(family=family, n=100, statistic=statistic, noise=noise.Laplace(2.0))
    found = noisewise.regress(release, "y", ["a", "ward"], draws=500, seed=1)
    assert np.isfinite(found.mean("a"))
    joint = noisewise.infer(release, "weak", draws=500, seed=1)
    assert np.isfinite(joint.mean("mean")).all()
    assert joint.mean("share[ward]").sum() == pytest.approx(1)


def test_beliefs_are_right(rng) -> None:
    """120 trials: an sd 30 % wrong is seen; false alarms below 10^-3 over all. The bench has more
    trials, of more settings.
    """
    found = uniforms(RegressionSetting(60, noise.Laplace(4.0), 1), 120, rng)
    for u in found.values():
        assert stats.kstest(u, "uniform").pvalue > 1e-4
        z = stats.norm.ppf(np.clip(u, 1e-3, 1 - 1e-3))
        assert abs(z.mean()) * np.sqrt(u.size) < 4
        assert abs((z**2).mean() - 1) * np.sqrt(u.size / 2) < 4


def test_a_sigma_that_is_mostly_prior_is_told(rng) -> None:
    """Residuals of 0.15 of half the bounds: the weak prior holds them for nearly impossible, and
    wins where noise hides them.
    """
    a = rng.uniform(-0.8, 0.8, 1000)
    y = 0.1 + 0.3 * a + 0.15 * rng.normal(size=1000)
    family = families.Moments({"y": UNIT, "a": UNIT})
    sums = np.array([one.sum() for one in family.statistic([y, a])])
    for scale, told in ((9.0, True), (0.01, False)):
        release = observe(family=family, n=1000, statistic=sums, noise=noise.Laplace(scale))
        found = noisewise.regress(release, "y", ["a"], draws=1000, seed=1)
        assert ("sigma and r2 lean on their prior" in found.certificate.sentence) == told


@pytest.mark.parametrize(
    ("spread", "outside", "told"), [(0.15, "redact", True), (0.05, "redact", False),
                                    (0.15, "clamp", False)]
)  # fmt: skip
def test_outcomes_that_may_have_been_left_out_are_told(spread, outside, told, rng) -> None:
    """Skewed errors put 0.7 % of 10^4 outcomes outside: the intercept is off by several sds, and
    only the number of records that counted tells. Where none lies outside there is nothing to say.
    """
    n, bounds = 10_000, Bounds(-1, 1, outside=outside)
    a = rng.uniform(-0.8, 0.8, n)
    y = 0.3 + 0.3 * a + spread * (rng.exponential(size=n) - 1)
    counts = np.abs(y) <= 1 if outside == "redact" else np.ones(n, dtype=bool)
    family, law = families.Moments({"y": bounds, "a": UNIT}), noise.Laplace(2.0)
    kept = [np.clip(y, -1, 1)[counts], a[counts]]
    sums = np.array([one.sum() for one in family.statistic(kept)])
    noisy = tuple(sums + law.broadcast(sums.size).simulate(rng, 1)[0])
    count = NoisyCount(float(counts.sum()), law)
    release = Release(family, n, noisy, law.broadcast(sums.size), count=count)
    found = noisewise.regress(release, "y", ["a"], draws=1000, seed=1)
    assert any("did not count" in said for said in found.certificate.warnings) == told


def test_a_prediction_is_between_its_intervals(rng) -> None:
    family, sums, _, y = table(rng)
    release = observe(family=family, n=len(y), statistic=sums, noise=noise.Laplace(0.01))
    posterior = noisewise.regress(release, "y", ["a", "ward"], seed=1)
    found = posterior.predict({"a": 5.0, "ward": "r"})
    line = posterior.draws["intercept"] + 5 * posterior.draws["a"] + posterior.draws["ward[r]"]
    assert found.mean == pytest.approx(line.mean())
    assert found.interval == pytest.approx(tuple(np.quantile(line, [0.05, 0.95])))
    sigma = posterior.mean("sigma")
    assert found.person[1] - found.person[0] == pytest.approx(2 * 1.645 * sigma, rel=0.05)
    for wrong in ({"a": 5.0}, {"a": 5.0, "ward": "x"}, {"a": "5", "ward": "r"}, {"b": 1}):
        with pytest.raises(NoisewiseError):
            posterior.predict(wrong)


def test_what_cannot_be_regressed_says_what_to_type(rng) -> None:
    family, sums, _, y = table(rng)
    release = observe(family=family, n=len(y), statistic=sums, noise=noise.Laplace(1.0))
    for words, said in (
        (("height", ["a"]), "it has: y, a, ward, b"),
        (("ward", ["a"]), r"families\.Table"),
        (("y", ["y"]), "leave it out"),
        (("y", ["a", "a"]), "named twice"),
        (("y ~ a", []), "--outcome bp --on age sex"),
        (("y", "a"), "a list of columns"),
    ):
        with pytest.raises(NoisewiseError, match=said):
            noisewise.regress(release, *words)
    few = observe(family=family, n=3, statistic=sums, noise=noise.Laplace(1.0))
    with pytest.raises(NoisewiseError, match="cannot tell"):
        noisewise.regress(few, "y", ["a", "b"])
    with pytest.raises(NoisewiseError, match=r"priors\.Linear"):
        noisewise.regress(release, "y", ["a"], prior=priors.Gamma(1, 1))  # type: ignore[arg-type]
    with pytest.raises(NoisewiseError, match="no coefficient here"):
        noisewise.regress(release, "y", ["a"], prior=priors.Linear({"b": 1.0}, 1, 1))
    with pytest.raises(NoisewiseError, match="leave method out"):
        noisewise.infer(release, "weak", method="gibbs")


def test_the_command_line_shows_the_table(tmp_path: Path, capsys, rng) -> None:
    family, sums, _, y = table(rng)
    release = observe(family=family, n=len(y), statistic=sums, noise=noise.Laplace(1.0))
    release.save(tmp_path / "r.json")
    command = ["regress", str(tmp_path / "r.json"), "--outcome", "y", "--on", "a", "ward"]
    extra = ["--draws", "500", "--seed", "1", "--plot", str(tmp_path / "c.svg")]
    assert run([*command, *extra, "--at", "a=5", "ward=q"]) == 0
    shown = capsys.readouterr().out
    assert "P(> 0)" in shown
    assert "ward: compared with p" in shown
    assert "at a=5 ward=q the mean y is" in shown
    assert (tmp_path / "c.svg").read_text().startswith("<?xml")
    target = ["--out", str(tmp_path / "r.csv")]
    assert run([*command, "--json", "--draws", "500", "--prior", "linear(sd=2)", *target]) == 0
    content = json.loads(capsys.readouterr().out)
    assert [row["name"] for row in content["table"]][-2:] == ["sigma", "r2"]
    with open(tmp_path / "r.csv") as file:
        rows = list(csv.DictReader(file))
    assert [row["name"] for row in rows] == [row["name"] for row in content["table"]]
    assert {row["n"] for row in rows} == {str(len(y))}
    assert run(["regress", str(tmp_path / "r.json"), "--outcome", "ward"]) == 2
    assert "--table" in capsys.readouterr().err


def test_simulated_covariates_follow_their_prior(rng) -> None:
    """Means uniform, correlations uniform: what the study draws is what the sampler assumes."""
    family = families.Moments({"y": UNIT, "f": ["0", "1"], "a": UNIT, "b": UNIT})
    drawn = [regressions.covariate_moments(family, rng) for _ in range(3000)]
    mean = np.array([m for m, _ in drawn])
    sd = np.array([np.sqrt(np.diag(c)) for _, c in drawn])
    assert stats.kstest(mean[:, 0], "uniform").pvalue > 1e-4
    assert stats.kstest(mean[:, 1], stats.uniform(-1, 2).cdf).pvalue > 1e-4
    assert stats.kstest(sd[:, 2] / np.sqrt(1 - mean[:, 2] ** 2), "uniform").pvalue > 1e-4
    # one correlation of a uniform 3 x 3 correlation matrix is Beta(3/2, 3/2) on (-1, 1)
    for j, k in ((0, 1), (1, 2)):
        r = np.array([c[j, k] for _, c in drawn]) / sd[:, j] / sd[:, k]
        assert stats.kstest((r + 1) / 2, stats.beta(1.5, 1.5).cdf).pvalue > 1e-4


def test_a_group_of_too_few_records_leaves_the_others_theirs(rng) -> None:
    family, sums, _, y = table(rng)
    few, enough = (
        observe(family=family, n=n, statistic=sums, noise=noise.Laplace(3.0)) for n in (2, len(y))
    )
    found = noisewise.regress_many([few, enough], "y", ["a"], draws=500, seed=1)
    assert found[0].method == "none"
    assert "cannot tell" in found[0].certificate.sentence
    assert np.isfinite(found[1].mean("a"))
    joint = noisewise.infer_many([few, enough], "weak", draws=500, seed=1)
    assert joint[0].method == "none"
    assert np.isfinite(joint[1].mean("mean")).all()


@pytest.mark.parametrize("twin", [pytest.param(False, marks=pytest.mark.thorough), True])
def test_columns_that_noise_leaves_vague_mix_in_any_order(twin, rng) -> None:
    """One that hardly varies beside one that goes with it, or its near twin: what is known of both
    is narrow and curved. Against four times the draws.
    """
    unit, n = Bounds(-1, 1, outside="redact"), 10**5
    family = families.Moments(dict.fromkeys("yabc", unit))
    root = np.array([[0.5, 0, 0], [0.1, 0.008, 0], [0.2, 0.3, 0.2]])
    if not twin:
        root[1, 0] = 0.0
    c = root @ root.T
    m, slopes = np.array([-0.3, 0.4, 0.1]), np.array([0.4, 0.3, -0.2])
    whole = np.empty((4, 4))
    whole[1:, 1:] = c + np.outer(m, m)
    whole[0, 1:] = whole[1:, 0] = whole[1:, 1:] @ slopes
    whole[0, 0] = slopes @ whole[1:, 1:] @ slopes + 0.09
    j, k = np.array(family.products).T
    sums = n * np.concatenate([[m @ slopes], m, whole[j, k]])
    law = noise.Gaussian(0.6).broadcast(sums.size)
    statistic = sums + law.simulate(rng, 1)[0]
    release = observe(family=family, n=n, statistic=statistic, noise=law)
    long = noisewise.regress(release, "y", ["c", "a", "b"], draws=16_000, seed=1)
    for on in (["a", "b", "c"], ["b", "a", "c"], ["c", "b", "a"]):
        posterior = noisewise.regress(release, "y", on, seed=2)
        for name in ("intercept", "a", "b", "c"):
            assert posterior.mean(name) == pytest.approx(long.mean(name), abs=0.15 * long.sd(name))
            assert posterior.sd(name) == pytest.approx(long.sd(name), rel=0.12)
