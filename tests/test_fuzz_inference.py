"""Whatever release can be loaded gives a posterior of numbers, or one clear line; with a bounded
amount of work.

Numbers of real releases are replaced by absurd but valid ones, one to three at a time, without a
declared cost that would have to fit them. `make fuzz` tries a hundredth of NOISEWISE_FUZZ, the
suite 20.
"""

import dataclasses
import os
import random
import re
import time
import warnings

import numpy as np

import noisewise
from noisewise import Bounds, NoisyCount, families, noise
from noisewise.artifact import Release, parse
from noisewise.errors import NoisewiseError

TRIED = max(20, int(os.environ.get("NOISEWISE_FUZZ", "0")) // 100)
HANGS = 60.0
"""Seconds of the processor's time after which an inference has hung; bench/stress.py holds it to 3.
"""
ABSURD = (0.0, 1e-150, 1e-12, 1e-3, 0.5, 1.0, 3.0, 1e3, 1e9, 1e15, 1e150, -1.0, -1e3, -1e150)
RELEASES = [
    Release(
        families.Exponential(),
        100,
        (1250.0,),
        noise.DiscreteLaplace(120.0, 0.25),
        Bounds(0, 60, outside="clamp"),
    ),
    Release(
        families.Gamma(shape=2.0),
        1000,
        (900.0,),
        noise.Gaussian(40.0),
        Bounds(0, 6, outside="redact"),
    ),
    Release(
        families.Poisson(),
        100,
        (300.0,),
        noise.DiscreteGaussian(12.0, 1.0),
        Bounds(0, 12, outside="redact"),
    ),
    Release(
        families.Geometric(), 2**40, (2.0**41,), noise.Laplace(10.0), Bounds(1, 9, outside="clamp")
    ),
    Release(
        families.Normal(variance=1.0),
        50,
        (10.0,),
        noise.Laplace(6.0),
        Bounds(-3, 3, outside="redact"),
    ),
    Release(
        families.Normal(mean=0.5), 50, (60.0,), noise.Laplace(16.0), Bounds(-4, 4, outside="clamp")
    ),
    Release(
        families.Normal(),
        200,
        (3.0, 40.0),
        noise.Laplace((4.0, 4.0)),
        Bounds(-4, 4, outside="redact"),
        coordinates="standardised",
    ),
    Release(
        families.Categorical(["a", "b", "c"]),
        50,
        (13.0, 24.0, 11.0),
        noise.DiscreteLaplace(2.0, 1.0),
    ),
    Release(families.Categorical(["a", "b"]), None, (13.0, 24.0), noise.Laplace(2.0)),
    Release(
        families.Bernoulli(),
        None,
        (3.0,),
        noise.Laplace(2.0),
        count=NoisyCount(9.5, noise.Laplace(1.0)),
    ),
    Release(
        families.Moments(
            {
                "a": Bounds(-1, 1, outside="redact"),
                "b": Bounds(0, 9, outside="clamp"),
                "f": ["x", "y"],
            },
            less=0.5,
        ),
        400,
        (10.0, -20.0, 100.0, -60.0, 5.0, 30.0, -80.0, 9.0),
        noise.Laplace(6.0).broadcast(8),
        count=NoisyCount(380.0, noise.Laplace(6.0)),
    ),
    Release(
        families.Table({"a": ["x", "y"], "b": ["1", "2", "3"]}),
        50,
        (3.0, 10.0, 5.0, 8.0, 9.0, 11.0),
        noise.DiscreteLaplace(2.0, 1.0).broadcast(6),
    ),
]


def _absurd(release: Release, rng: random.Random) -> Release:
    """The release with another number in one place; a combination that no release can be raises an
    error of ours.
    """

    def other(value: float) -> float:
        return (
            rng.choice(ABSURD) if rng.random() < 0.7 else value * rng.choice([-1.0, 0.1, 10.0, 1e6])
        )

    match rng.randrange(5):
        case 0 if release.n is not None:
            return dataclasses.replace(release, n=rng.choice([0, 1, 2, 10**6, 2**53 + 1, 2**62]))
        case 1:
            at = rng.randrange(len(release.statistic))
            values = [other(v) if j == at else v for j, v in enumerate(release.statistic)]
            return dataclasses.replace(release, statistic=tuple(values))
        case 2 if release.bounds is not None:
            ends = [release.bounds.lower, release.bounds.upper]
            at = rng.randrange(2)
            ends[at] = other(ends[at])
            return dataclasses.replace(
                release, bounds=Bounds(*ends, outside=release.bounds.outside)
            )
        case 3 if release.count is not None:
            return dataclasses.replace(
                release,
                count=NoisyCount(other(release.count.value), noise.Laplace(abs(other(1.0)))),
            )
    held = dataclasses.asdict(release.noise)
    name = rng.choice(list(held))
    return dataclasses.replace(
        release, noise=type(release.noise)(**held | {name: tuple(map(other, held[name]))})
    )


def test_absurd_releases_give_numbers_or_one_line() -> None:
    rng = random.Random(20261116)
    made = refused = warned = several_lines = 0
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # a warning of NumPy's on the terminal is no answer
        while made < TRIED:
            release = rng.choice(RELEASES)
            try:
                for _ in range(rng.choice([1, 1, 2, 3])):
                    release = _absurd(release, rng)
                release = parse(release.to_json())
            except (NoisewiseError, ValueError):
                continue
            made += 1
            started = time.process_time()
            try:
                posterior = noisewise.infer(release, "weak", draws=50, seed=1)
                summary, certificate = posterior.summary(), posterior.certificate
                draws = posterior.draws
            except NoisewiseError as error:
                several_lines += "\n" in str(error)
                refused += 1
                continue
            assert time.process_time() - started < HANGS, release
            warned += bool(certificate.warnings)
            for row in summary:
                assert row["5%"] <= row["50%"] <= row["95%"], release
                assert row["mean"] is None or np.isfinite(row["mean"]), release
            assert all(np.isfinite(values).all() for values in draws.values()), release
            assert re.search(r"\bnan\b", certificate.sentence.lower()) is None, release
    print(f"{made} absurd releases: {refused} refused, {warned} warned")
    assert several_lines == 0
    assert refused < made / 2
