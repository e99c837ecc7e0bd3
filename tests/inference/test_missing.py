"""A posterior names the value that records without one count as."""

from pathlib import Path

import pandas as pd
import pytest

import noisewise
from noisewise import Bounds, families, noise
from noisewise.mechanism.missing import said_of_missing

CLAMP = Bounds(0, 61, outside="clamp")
"""Its middle is no whole number."""


def released(column: list[object], **settings: object) -> noisewise.Release:
    """As a curator makes it, at a cost that leaves little noise."""
    frame = pd.DataFrame({"x": column})
    return noisewise.release(frame, column="x", epsilon=50, ledger=None, **settings)


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        (
            {"family": families.Exponential(), "bounds": CLAMP},
            "records without a value count as 30.5, the middle of the bounds",
        ),
        (
            {"family": families.Poisson(), "bounds": CLAMP},
            "records without a value count as 30, the middle of the bounds, rounded down",
        ),
        (
            {"family": families.LogNormal(), "bounds": Bounds(1, 100, outside="clamp")},
            "records without a value count as 10, the middle of the bounds on the family's own "
            "scale",
        ),
        (
            {"family": families.Poisson(), "bounds": CLAMP, "missing": 7},
            "records without a value count as 7",
        ),
        (
            {"family": families.Exponential(), "bounds": Bounds(0, 61, outside="redact")},
            "missing records contribute 0, like records outside the bounds",
        ),
        ({"family": families.Bernoulli()}, "records without a value count as 0"),
        (
            {"family": families.Categorical(["1", "2", "rest"], other="rest")},
            "records that are missing or unlisted count as 'rest'",
        ),
    ],
)
def test_certificate_and_summary_say_what_missing_records_count_as(
    settings: dict[str, object], said: str
) -> None:
    release = released([1.0, 2.0, None, 1.0] * 25, **settings)
    posterior = noisewise.infer(release, "weak", seed=1)
    certificate = posterior.certificate
    assert certificate.missing == said
    assert f"; {said}" in certificate.sentence
    assert not any(said in warning for warning in certificate.warnings)
    assert str(posterior.summary()).splitlines()[-1] == f"{said}."


def test_several_releases_say_each_rule_once() -> None:
    releases = [
        released([1.0] * n, family=families.Poisson(), bounds=CLAMP, missing=value)
        for n, value in ((90, 3), (100, 5), (110, 3))
    ]
    said = noisewise.infer(releases, "weak").certificate.missing
    assert said == "records without a value count as 3; records without a value count as 5"


def test_nothing_is_said_where_the_release_says_nothing() -> None:
    release = noisewise.observe(
        family=families.Bernoulli(), n=100, statistic=30.0, noise=noise.Laplace(1.0)
    )
    for notes in ((), ("Something else.",), ("missing\x1b[2J",)):
        assert said_of_missing(notes, release.family, release.bounds) is None
    posterior = noisewise.infer(release, "weak")
    assert posterior.certificate.missing is None
    assert "value" not in str(posterior.summary())


@pytest.mark.parametrize(
    ("name", "value"),
    [("v1-poisson", "4, the middle of the bounds, rounded down"), ("v2-rho", "4.5, the middle")],
)
def test_older_files_say_it_too(name: str, value: str) -> None:
    release = noisewise.load(Path(__file__).parents[1] / "releases" / f"{name}.json")
    said = said_of_missing(release.notes, release.family, release.bounds)
    assert said is not None
    assert said.startswith(f"records without a value count as {value}")
