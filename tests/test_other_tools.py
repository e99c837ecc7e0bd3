"""`observe_mean` against the tools themselves, where they are installed: what docs/other-tools.md
says of their noise is so.

Truths are drawn from the prior, so that whatever the noise does, ranks of the truth are uniform and
90 % intervals hold it in 90 % of the trials, but for chance. OpenDP's noise takes no seed.
"""

import re
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import opendp.prelude as dp
import pytest
from scipy import stats

import noisewise
from chance import FALSE_ALARM
from noisewise import NoisyCount, families, noise, priors

TRIALS = 150
"""Of each recipe."""
FEW = 50
"""Where a trial takes long."""
WAITS = priors.Gamma(4, 40)
"""Waits of about ten minutes."""
EXPONENTIAL = families.Exponential()
Publish = Callable[[np.ndarray], noisewise.Release]

dp.enable_features("contrib")


def covered(rng: np.random.Generator, publish: Publish, n: int, trials: int = TRIALS) -> None:
    """Exponential records of many truths, each table published and inferred from."""
    truth = WAITS.draw(rng, trials)[:, 0]
    releases = [publish(rng.exponential(1 / rate, n)) for rate in truth]
    judge(noisewise.infer_many(releases, WAITS).cdf("rate", truth))


def judge(rank: np.ndarray) -> None:
    """Ranks of truths, one for each trial."""
    inside = int(((rank > 0.05) & (rank < 0.95)).sum())
    print(f"90 % intervals cover {inside / rank.size:.1%} of {rank.size}")
    assert stats.binomtest(inside, rank.size, 0.9).pvalue > FALSE_ALARM
    assert stats.kstest(rank, "uniform").pvalue > FALSE_ALARM


def test_a_mean_from_opendp(rng: np.random.Generator) -> None:
    n, scale = 50, 2.4
    space = dp.vector_domain(dp.atom_domain(T=float, nan=False), size=n), dp.symmetric_distance()
    mean = space >> dp.t.then_clamp((0.0, 60.0)) >> dp.t.then_mean() >> dp.m.then_laplace(scale)
    assert mean.map(2) == pytest.approx(60 / n / scale)  # one record is replaced

    def stated(x: np.ndarray) -> noisewise.Release:
        law = noise.Laplace(scale)
        return noisewise.observe_mean(
            mean(x.tolist()), n=n, bounds=(0, 60), noise=law, family=EXPONENTIAL
        )

    covered(rng, stated, n)
    x = rng.exponential(10, n)
    by_cost = noisewise.observe_mean(5.0, n=n, bounds=(0, 60), epsilon=0.5, family=EXPONENTIAL)
    assert by_cost.noise.scale == pytest.approx(stated(x).noise.scale)


def test_a_sum_and_a_count_from_opendp(rng: np.random.Generator) -> None:
    space = dp.vector_domain(dp.atom_domain(T=float, nan=False)), dp.symmetric_distance()
    total = space >> dp.t.then_clamp((0.0, 60.0)) >> dp.t.then_sum() >> dp.m.then_laplace(120.0)
    count = space >> dp.t.then_count() >> dp.m.then_laplace(2.0)
    assert (total.map(1), count.map(1)) == pytest.approx((0.5, 0.5))  # one is added or removed

    def publish(x: np.ndarray) -> noisewise.Release:
        return noisewise.observe_mean(
            total=total(x.tolist()),
            count=NoisyCount(count(x.tolist()), noise.DiscreteLaplace(2.0, 1.0)),
            bounds=(0, 60),
            epsilon=0.5,
            family=EXPONENTIAL,
        )

    assert publish(np.ones(50)).noise.scale == (120.0,)
    covered(rng, publish, 50, FEW)


def test_a_histogram_from_opendp(rng: np.random.Generator) -> None:
    labels, prior = ["a", "b", "c"], priors.Dirichlet([1, 1, 1])
    space = dp.vector_domain(dp.atom_domain(T=str)), dp.symmetric_distance()
    counted = space >> dp.t.then_count_by_categories(labels, null_category=False)
    histogram = counted >> dp.m.then_laplace(8.0)
    assert histogram.map(1) == pytest.approx(0.125)
    truth = prior.draw(rng, TRIALS)
    releases = [
        noisewise.observe_mean(
            total=histogram(rng.choice(labels, 60, p=p).tolist()),
            family=families.Categorical(labels),
            epsilon=0.125,
        )
        for p in truth
    ]
    found = noisewise.infer_many(releases, prior)
    judge(np.array([one.cdf("probabilities", p)[0] for one, p in zip(found, truth, strict=True)]))


def diffprivlib_tools() -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return pytest.importorskip("diffprivlib", exc_type=ImportError).tools


def test_a_mean_from_diffprivlib_that_is_often_cut_at_a_bound(rng: np.random.Generator) -> None:
    tools, n, cut = diffprivlib_tools(), 10, []

    def publish(x: np.ndarray) -> noisewise.Release:
        value = tools.mean(x, epsilon=0.5, bounds=(0, 60), random_state=int(rng.integers(2**31)))
        cut.append(value in (0, 60))
        return noisewise.observe_mean(value, n=n, bounds=(0, 60), epsilon=0.5, family=EXPONENTIAL)

    covered(rng, publish, n)
    assert np.mean(cut) > 0.1


def test_a_count_from_diffprivlib(rng: np.random.Generator) -> None:
    tools, prior = diffprivlib_tools(), priors.Beta(1, 4)
    truth = prior.draw(rng, TRIALS)[:, 0]
    releases = [
        noisewise.observe_mean(
            total=tools.count_nonzero(
                rng.random(20) < p, epsilon=0.3, random_state=int(rng.integers(2**31))
            ),
            n=20,
            epsilon=0.3,
            family=families.Bernoulli(),
        )
        for p in truth
    ]
    assert np.mean([one.statistic == (0.0,) for one in releases]) > 0.1  # cut, many of them
    judge(noisewise.infer_many(releases, prior).cdf("probability", truth))


def test_a_histogram_from_diffprivlib(rng: np.random.Generator) -> None:
    tools, prior = diffprivlib_tools(), priors.Dirichlet([1, 1, 1])
    truth = prior.draw(rng, TRIALS)
    rank = []
    for p in truth:
        x, state = rng.choice(3, 15, p=p), int(rng.integers(2**31))
        made, _ = tools.histogram(x, epsilon=0.3, bins=3, range=(-0.5, 2.5), random_state=state)
        release = noisewise.observe_mean(
            total=made, family=families.Categorical(["a", "b", "c"]), epsilon=0.3
        )
        rank.append(noisewise.infer(release, prior).cdf("probabilities", p)[0])
    judge(np.array(rank))


def test_the_recipe_for_diffprivlib_runs_as_printed() -> None:
    diffprivlib_tools()
    page = (Path(__file__).parents[1] / "docs" / "other-tools.md").read_text()
    (block,) = [
        one for one in re.findall(r"^```py\n(.*?)^```", page, re.S | re.M) if "diffprivlib" in one
    ]
    names: dict[str, object] = {}
    exec(block, names)
    assert all(isinstance(names[name], noisewise.Release) for name in ("mean", "late", "bins"))
