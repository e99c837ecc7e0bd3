"""Seeds: the same for the same question, and others as soon as anything in it differs."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import noisewise
from noisewise import Bounds, NoisyCount, Release, families, noise, priors
from noisewise.inference import methods
from noisewise.inference.methods import gibbs, gibbs_sampler
from noisewise.inference.methods.base import Request
from noisewise.inference.observations import gather
from noisewise.inference.problem import Problem
from noisewise.inference.solver import Solver
from noisewise.inference.streams import DRAWS, SAMPLER, Streams

PLAIN = noisewise.observe(
    family=families.Exponential(),
    n=100,
    statistic=30.0,
    noise=noise.Laplace(2.0),
    bounds=Bounds(0, 5, outside="clamp"),
)
COUNTED = noisewise.observe(
    family=families.Bernoulli(),
    count=NoisyCount(40.0, noise.Laplace(2.0)),
    statistic=9.0,
    noise=noise.Laplace(2.0),
)


def words(seed: int | None, releases: list[list[Release]], group: int = 0, *purpose: int) -> Any:
    return tuple(Streams(seed, releases).of(group, *purpose).generate_state(4))


def test_one_question_has_one_seed() -> None:
    assert words(3, [[PLAIN]]) == words(3, [[replace(PLAIN)]])
    assert words(3, [[PLAIN]]) == words(3, [[PLAIN], [COUNTED]])
    assert words(3, [[PLAIN]]) == words(3, [[PLAIN]], 0, DRAWS)
    assert words(None, [[PLAIN]]) != words(None, [[PLAIN]])


def test_twins_purposes_and_seeds_differ() -> None:
    found = [
        words(seed, [[PLAIN], [PLAIN], [PLAIN, PLAIN]], group, purpose)
        for seed in (3, 4)
        for group in range(3)
        for purpose in (DRAWS, SAMPLER)
    ]
    assert len(set(found)) == len(found)


def test_some_of_the_releases_keep_their_seeds() -> None:
    whole = Streams(3, [[PLAIN], [COUNTED], [PLAIN]])
    some = whole.at([2, 0])
    for group, position in enumerate([2, 0]):
        assert some.of(group).entropy == whole.of(position).entropy
        assert some.sampler(group).random() == whole.sampler(position).random()
    assert whole.sampler(0).random() != whole.sampler(2).random()


@pytest.mark.parametrize(
    ("release", "change"),
    [
        (PLAIN, {"family": families.Gamma(shape=2.0)}),
        (PLAIN, {"n": 101}),
        (PLAIN, {"statistic": (30.5,)}),
        (PLAIN, {"noise": noise.Laplace(2.5)}),
        (PLAIN, {"noise": noise.Gaussian(2.0)}),
        (PLAIN, {"bounds": Bounds(0, 5, outside="redact")}),
        (PLAIN, {"dataset": "visits"}),
        (PLAIN, {"column": "wait"}),
        (PLAIN, {"group": ("county", "Kent")}),
        (COUNTED, {"count": NoisyCount(41.0, noise.Laplace(2.0))}),
    ],
    ids=str,
)
def test_whatever_differs_in_a_release_gives_another_seed(
    release: Release, change: dict[str, Any]
) -> None:
    assert words(3, [[release]]) != words(3, [[replace(release, **change)]])


def test_a_group_that_is_solved_among_others_keeps_its_own_generator(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Whichever groups an earlier method has left."""
    monkeypatch.setattr(gibbs_sampler, "BURN_IN", 5)
    monkeypatch.setattr(gibbs, "LEAST_STEPS", 5)
    asked = []

    def generator(group: int) -> np.random.Generator:
        asked.append(group)
        return np.random.default_rng(group)

    releases = [replace(PLAIN, statistic=(float(y),)) for y in (20, 30, 40)]
    problem = Problem(PLAIN.family, (priors.Gamma(2, 2),), (gather(releases),))
    solver = Solver(problem, "gibbs", Request("", draws=8, chains=2, generator=generator))
    method = methods.named("gibbs", problem)
    found = solver._attempt(method, "", np.array([2, 0]))
    assert asked == [2, 0]
    assert sorted(found) == [0, 2]
