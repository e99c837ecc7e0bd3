"""Seeds: the same for the same question, and others as soon as anything in it differs."""

from dataclasses import replace
from typing import Any

import pytest

import noisewise
from noisewise import Bounds, NoisyCount, Release, families, noise
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
