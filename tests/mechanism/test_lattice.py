"""What a lattice makes of a record: the nearest point, the stated value for a missing one."""

import numpy as np
import pytest

from cases import TRUNCATED, Case, name
from noisewise import Bounds, families
from noisewise.mechanism.lattice import Lattice, Plain, Standardised, lattice_for


def released(lattice: Lattice, x: np.ndarray) -> np.ndarray:
    """The statistics of each record in the release's own coordinates, (records, d)."""
    parts = np.stack(lattice.integers(x), axis=-1) + np.array(lattice.offset)
    return parts * np.array(lattice.step)


@pytest.mark.parametrize("case", TRUNCATED, ids=name)
@pytest.mark.parametrize("outside", ["redact", "clamp"])
def test_a_record_goes_to_the_nearest_lattice_point(
    case: Case, outside: str, rng: np.random.Generator
) -> None:
    """Within half a step, and off by 0 on average: a lattice that rounds down would move the sum of
    n records by n/2 steps. Twenty thousand roundings of sd 0.29 steps have a mean within 6 standard
    errors of 0 but with probability 2e-9.
    """
    for bounds in case.bounds(outside):
        assert bounds is not None
        lattice = lattice_for(case.family, bounds)
        x = rng.uniform(bounds.lower, bounds.upper, 20_000)
        if case.family.integer:
            x = np.round(x)
            x = x[(x >= bounds.lower) & (x <= bounds.upper)]
        own, u = case.family, x
        if isinstance(lattice, Standardised):
            own, ends = case.family.modelled(bounds)
            z = np.log(x) if case.family.kind == "log_normal" else x
            u = (z - ends.middle) / ends.radius  # type: ignore[union-attr]
        away = (released(lattice, x) - own.statistics(u)) / np.array(lattice.step)
        # the square of a rounded u is off by the rounding of u, twice, and by its own
        half = np.array([0.5, 1.5]) if isinstance(lattice, Standardised) else np.array([0.5])
        assert (np.abs(away) <= half + 1e-6).all()
        # the squares of a rounded u have an sd of sqrt(1/12 + 4/3/12) at most
        assert (np.abs(away.mean(axis=0)) < 6 * 0.45 / np.sqrt(x.size)).all()


@pytest.mark.parametrize("missing", [None, 0, 1])
def test_a_bernoulli_record_that_is_neither_0_nor_1_is_missing(missing: int | None) -> None:
    lattice = lattice_for(families.Bernoulli(), None, missing)
    odd = np.array([np.nan, 0.5, 0.9, -1.0, 2.0, np.inf, -np.inf])
    assert released(lattice, odd)[:, 0].tolist() == [float(missing or 0)] * odd.size
    assert released(lattice, np.array([0.0, 1.0]))[:, 0].tolist() == [0.0, 1.0]


def test_bounds_far_from_zero_have_a_step_that_floats_can_tell() -> None:
    """At 10^12 a float has 13 binary digits to spare: steps of 2^-20 would be no whole numbers of
    it, steps of 2^-10 are.
    """
    lattice = lattice_for(families.Normal(variance=1.0), Bounds(1e12, 1e12 + 1, outside="clamp"))
    assert isinstance(lattice, Plain)
    assert lattice.step == (2.0**-10,)
    x = 1e12 + np.arange(1025) / 1024
    assert np.stack(lattice.integers(x))[0].tolist() == list(range(1025))
