"""Plans: widths against loops of their own, against closed forms and against `compare`."""

import json
import math

import numpy as np
import pytest
from scipy import stats

import noisewise
from noisewise import Bounds, families, priors
from noisewise.cli.main import run
from noisewise.curator.plan import Plan as ReleasePlan
from noisewise.curator.settings import Settings
from noisewise.errors import UnsupportedCombination
from noisewise.study import compare
from noisewise.study.noise_law import noise_law
from noisewise.study.planning import without_noise
from noisewise.study.planning.search import crossing
from noisewise.study.trials import Setting, simulate

MINUTES = Bounds(0, 60, outside="clamp")
WAIT = {"family": families.Exponential(), "bounds": MINUTES, "truth": {"rate": 0.07}}
COLUMNS = {
    "bp": Bounds(60, 220, outside="redact"),
    "age": Bounds(0, 100, outside="redact"),
    "sex": ["f", "m"],
}
FALSE_ALARM = 4.9
"""Standard errors: 10^-6, two-sided."""


@pytest.fixture(scope="module")
def wait():
    return noisewise.plan(n=[500, 2000], epsilon=[0.1, 0.5], **WAIT)


def test_widths_are_those_of_a_direct_loop(wait, rng) -> None:
    """Another seed, simulate and infer one by one, the weak prior by hand."""
    prior = priors.Independent(rate=stats.lognorm(s=1.7, scale=12 / 60))
    sample = simulate(
        Setting(families.Exponential(), prior, MINUTES, 500, 0.1),
        48,
        rng,
        truth=np.array([0.07]),
    )
    assert np.all(sample.theta == 0.07)
    ends = [noisewise.infer(one, prior).interval("mean", 0.9) for one in sample.releases]
    widths = np.diff(np.array(ends), axis=1)[:, 0]
    error = 1.2533 * widths.std(ddof=1) / math.sqrt(widths.size)
    row = next(row for row in wait.table() if (row["n"], row["epsilon"]) == (500, 0.1))
    assert abs(np.median(widths) - row["width"]) < FALSE_ALARM * math.hypot(
        error, row["width_mcse"]
    )


def test_without_noise_it_is_the_conjugate_posteriors_width(wait) -> None:
    """Of a gamma posterior with n more records; the median over records is about that of their
    expected sum, and the prior says next to nothing.
    """
    for n in (500, 2000):
        gamma = stats.gamma(n, scale=0.07 / n)
        low, high = 1 / gamma.ppf(0.95), 1 / gamma.ppf(0.05)
        found = next(row["non_private"] for row in wait.table() if row["n"] == n)
        assert found == pytest.approx(high - low, rel=4 / math.sqrt(n))


def test_a_huge_epsilon_gives_the_width_without_noise() -> None:
    """Of a family that is bounded by itself nothing else is lost."""
    made = noisewise.plan(
        family=families.Bernoulli(), n=[300], epsilon=[500.0], truth={"probability": 0.3}
    )
    (row,) = made.table()
    assert row["ratio"] == pytest.approx(1.0, abs=1e-3)
    assert row["width"] == pytest.approx(2 * 1.645 * math.sqrt(0.21 / 300), rel=0.02)


def test_widths_are_those_of_compare() -> None:
    """With truths from a prior, in the same units: times the non-private width of the rate."""
    prior = priors.Gamma(8, 100)
    asked = {"n": [200], "epsilon": [0.3], "bounds": MINUTES}
    other = compare(families.Exponential(), prior, methods=["auto"], trials=150, **asked)
    (theirs,) = other.table
    (ours,) = noisewise.plan(
        family=families.Exponential(), prior=prior, of="rate", trials=150, **asked
    ).table()
    error = math.hypot(theirs["width_ratio_mcse"], ours["ratio_mcse"])
    assert error < 0.05 * theirs["width_ratio"]
    assert abs(theirs["width_ratio"] - ours["ratio"]) < FALSE_ALARM * error


def test_the_posterior_without_noise_of_two_parameters_against_its_margins(rng) -> None:
    x = rng.normal(5, 2, (3, 40))
    sums, prior = np.stack([x.sum(1), (x**2).sum(1)], 1), priors.NormalInverseGamma(4, 1, 2, 6)
    found = without_noise.widths(
        families.Normal(), prior, sums, 40, np.tile([5.0, 4.0], (3, 1)), ["mean", "variance"], 0.9
    )
    updated = families.Normal().update(prior, sums, 40)
    t = stats.t(2 * updated.shape, scale=np.sqrt(updated.scale / updated.shape / updated.strength))
    inverse = stats.invgamma(updated.shape, scale=updated.scale)
    for j, law in enumerate((t, inverse)):
        np.testing.assert_allclose(found[:, j], law.ppf(0.95) - law.ppf(0.05), rtol=0.004)


def test_epsilon_and_n_for_a_width_give_that_width(wait) -> None:
    epsilon, n = wait.epsilon_for(2.5, 2000), wait.n_for(2.5, 0.2)
    fresh = noisewise.plan(n=[2000], epsilon=[epsilon], trials=96, **(WAIT | {"seed": 5}))
    assert fresh.width(2000, epsilon) == pytest.approx(2.5, rel=0.04)
    fresh = noisewise.plan(n=[n], epsilon=[0.2], trials=96, **(WAIT | {"seed": 5}))
    assert fresh.width(n, 0.2) == pytest.approx(2.5, rel=0.04)
    assert wait.epsilon_for(0.8, 10_000) < 0.06  # beyond the grid, by real simulation


def test_what_no_epsilon_reaches_is_said(wait) -> None:
    with pytest.raises(
        UnsupportedCombination, match=r"no ε gives .* even without noise it is 2\.0[78]"
    ):
        wait.epsilon_for(1.5, 500)


def test_the_search_finds_the_crossing_of_a_known_curve() -> None:
    def curve(x: float) -> float:
        return math.sqrt(1 + (3 / x) ** 2)

    found = crossing(curve, 2.0, [0.01, 100.0], (1e-4, 1e4))
    assert found == pytest.approx(math.sqrt(3), rel=0.03)
    assert crossing(curve, 0.9, [1.0], (1e-4, 1e4)) is None
    assert crossing(curve, 1e9, [1.0], (1e-4, 1e4)) == 1e-4


def test_the_same_seed_gives_the_same_numbers_whatever_else_is_asked(wait) -> None:
    alone = noisewise.plan(n=[2000], epsilon=[0.5], **WAIT)
    assert alone.table()[0] in wait.table()


@pytest.mark.parametrize(
    ("family", "bounds", "truth", "name"),
    [
        (families.Exponential(), MINUTES, {"mean": 14.0}, "mean"),
        (families.Poisson(), Bounds(0, 20, outside="clamp"), {"rate": 3}, "rate"),
        (families.Geometric(), Bounds(1, 30, outside="redact"), {"mean": 4}, "mean"),
        (families.Normal(mean=0.0), Bounds(-9, 9, outside="clamp"), {"sd": 2}, "sd"),
        (families.Normal(), Bounds(0, 9, outside="clamp"), {"mean": 4, "sd": 1}, "mean"),
        (families.LogNormal(), Bounds(1, 60, outside="clamp"), {"median": 9, "log_sd": 1}, "mean"),
        (families.Weibull(shape=1.5), MINUTES, {"mean": 14}, "mean"),
        (families.Pareto(minimum=1.0), Bounds(1, 50, outside="clamp"), {"index": 2}, "index"),
        (families.Binomial(trials=12), None, {"mean": 5}, "mean"),
        (
            families.Categorical(["a", "b", "c"], other="c"),
            None,
            {"a": 0.2, "b": 0.5, "c": 0.3},
            "probabilities[a]",
        ),
        (
            families.Table({"sex": ["f", "m"], "ill": ["no", "yes"]}),
            None,
            {"f, no": 0.3, "f, yes": 0.2, "m, no": 0.4, "m, yes": 0.1},
            "probabilities[f, no]",
        ),
    ],
    ids=lambda value: getattr(value, "kind", ""),
)
def test_every_family_has_a_plan(family, bounds, truth, name) -> None:
    made = noisewise.plan(
        family=family, bounds=bounds, n=[800], epsilon=[1.0], truth=truth, trials=3
    )
    row = made.table()[0]
    assert row["quantity"] == name
    assert 0 < row["non_private"] < row["width"] * 1.1
    assert math.isfinite(row["width"])


def test_means_regressions_and_shares_of_several_columns() -> None:
    asked = {"family": families.Moments(COLUMNS), "n": [3000], "trials": 3}
    truth = {"mean[bp]": 130, "sd[bp]": 18, "share[sex][m]": 0.4}
    means = noisewise.plan(epsilon=[40.0], truth=truth, **asked)
    rows = {row["quantity"]: row for row in means.table()}
    # without noise: 2 z sd / sqrt(n)
    assert rows["mean[bp]"]["non_private"] == pytest.approx(3.29 * 18 / 3000**0.5, rel=0.06)
    assert rows["mean[bp]"]["ratio"] == pytest.approx(1.0, abs=0.1)
    assert rows["share[sex][m]"]["non_private"] == pytest.approx(
        3.29 * math.sqrt(0.24 / 2865), rel=0.05
    )
    assert "taken to be: mean[age] = 50, sd[age] = 25" in means.design.about
    guess = {"age": 0.5, "intercept": 100, "sigma": 15, "sd[age]": 15}
    line = noisewise.plan(
        rho=[50.0], outcome="bp", on=["age"], neighbours="add_remove", truth=guess, **asked
    )
    (row,) = line.table()
    assert row["non_private"] == pytest.approx(3.29 * 15 / (15 * 3000**0.5), rel=0.06)
    assert row["ratio"] == pytest.approx(1.0, abs=0.1)


def test_truths_of_several_columns_from_the_prior() -> None:
    columns = {name: COLUMNS[name] for name in ("sex", "bp")}
    asked = {"family": families.Moments(columns), "n": [90], "epsilon": [5.0], "trials": 2}
    for extra in ({"of": "mean[bp]"}, {"outcome": "bp", "on": ["sex"]}):
        rows = noisewise.plan(prior="weak", **asked, **extra).table()
        assert all(0 < row["width"] < 200 for row in rows)


@pytest.mark.parametrize("cost", [{"epsilon": 0.5}, {"rho": 0.1}])
@pytest.mark.parametrize("neighbours", ["replace_one", "add_remove", "move"])
@pytest.mark.parametrize(
    "model",
    [
        {"column": "x", "family": families.Exponential(), "bounds": MINUTES},
        {"column": "x", "family": families.Normal(), "bounds": MINUTES},
        {"family": families.Moments(COLUMNS)},
        {"family": families.Table({"sex": ["f", "m"]})},
    ],
    ids=lambda model: model["family"].kind,
)
def test_the_noise_is_that_of_a_release(model, neighbours, cost) -> None:
    """As the curator would certify it, for two records of each person."""
    groups = {"by": "g", "groups": ["a", "b"], "sizes": "released"} if neighbours == "move" else {}
    known = "replace_one" if neighbours == "move" else neighbours
    settings = Settings(**model, **cost, neighbours=known, records_per_person=2, **groups)
    release = ReleasePlan.widest(settings)
    law = noise_law(release.lattice, neighbours, 2, "rho" in cost, next(iter(cost.values())))
    np.testing.assert_allclose(law.noise.scales, release.noise.scales, rtol=1e-6)
    assert (law.count is None) == (release.count_noise is None)
    if law.count is not None:
        np.testing.assert_allclose(law.count.scales, release.count_noise.scales, rtol=1e-6)


def test_more_to_protect_is_a_wider_interval() -> None:
    def width(**changed) -> float:
        made = noisewise.plan(**(WAIT | {"n": 800, "epsilon": 0.2, "trials": 24} | changed))
        return made.table()[0]["width"]

    plain = width()
    assert width(records_per_person=3) > 1.8 * plain
    assert width(neighbours="add_remove") > 1.2 * plain
    assert width(sizes="released") > width(sizes="public") == plain
    assert width(delta=1e-6) > width(delta=1e-3)


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"truth": None}, "a plan needs a guess: truth="),
        ({"truth": {"speed": 1}}, "'speed' is none of them"),
        ({"truth": {"rate": -1}}, "must lie between 0 and inf"),
        ({"epsilon": [-1.0]}, "must be a positive number"),
        ({"rho": 0.1}, "say what a release may cost"),
        ({"of": "sd"}, "of= (--of) may be: rate, mean"),
        ({"level": 2}, "level must lie between"),
        ({"n": []}, "at least one n"),
        ({"n": [0]}, "n must lie between 1"),
        ({"bounds": None}, "needs bounds"),
        ({"outcome": "bp"}, "needs families.Moments"),
        ({"neighbours": "odd"}, "neighbours must be one of"),
        ({"trials": 1}, "trials must be at least 2"),
    ],
)
def test_bad_input_is_refused_with_a_remedy(changed, words) -> None:
    with pytest.raises(ValueError) as refusal:
        noisewise.plan(**(WAIT | {"n": [50], "epsilon": [1.0]} | changed))
    assert words in str(refusal.value)


def test_the_command(tmp_path, monkeypatch, capsys) -> None:
    monkeypatch.chdir(tmp_path)
    words = [
        "plan",
        "--family",
        "exponential",
        "--bounds",
        "0",
        "60",
        "--outside",
        "clamp",
        "--n",
        "500",
        "2000",
        "--epsilon",
        "0.1",
        "1",
        "--truth",
        "rate=0.07",
        "--trials",
        "8",
        "--width",
        "2.3",
        "--unit",
        "minutes",
    ]
    assert run([*words, "--out", "page.html", "--plot", "p.svg"]) == 0
    said = capsys.readouterr().out
    for fact in (
        "Width of the 90 % interval of mean, in minutes",
        "ε = 0.1  ε = 1  without noise",
        "For an interval of 2.3 minutes:",
        "rises to at most 73.1 %",
        "nothing is spent",
    ):
        assert fact in said
    page = (tmp_path / "page.html").read_text()
    assert "rises to at most 73.1 %" in page
    assert "://" not in page
    assert run([*words, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert len(found["table"]) == 4
    assert found["for_width"][0]["given"] == "n = 500"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["p.svg", "page.html"]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("--truth rate", "--truth takes NAME=VALUE"),
        ("--truth rate=0.07 --out page.pdf", "must end in .html"),
        ("", "a plan needs a guess"),
        ("--truth rate=0.07 --width x", "--width must be a finite number"),
    ],
)
def test_bad_commands(words, said, capsys) -> None:
    plan = "plan --family exponential --bounds 0 60 --outside clamp --n 500 --epsilon 1"
    assert run([*plan.split(), *words.split()]) == 2
    assert said in capsys.readouterr().err
