"""Private bounds: what is counted, what is chosen from the counts, and at what cost."""

import math
from decimal import Decimal
from typing import Any

import numpy as np
import pandas as pd
import pytest

from noisewise import Bounds, PrivateBounds
from noisewise.curator.private_bounds import Grid, _quantile, below, choose
from noisewise.curator.reading import Reading
from noisewise.curator.sums import Held
from noisewise.model.bounds import CANDIDATES

CERTAIN = Decimal(10**6)
"""At this epsilon the best candidate is chosen but with probability e^-100 or less."""


def wanted(lower: float, upper: float, **asked: Any) -> PrivateBounds:
    return PrivateBounds(lower, upper, epsilon=1, outside="clamp", **asked)


@pytest.mark.parametrize("integer", [False, True])
def test_records_below_each_candidate_are_counted(integer: bool, rng: np.random.Generator) -> None:
    """Candidates themselves, their neighbouring floats, far away, infinite and missing."""
    grid = Grid.over(wanted(-3, 21), integer)
    candidates = np.array([grid[index] for index in range(grid.size)])
    some = rng.choice(candidates, 20)
    x = np.concatenate(
        [
            rng.uniform(-5, 23, 200),
            some if integer else some + grid.width / 2,
            [-3.0, np.nextafter(-3.0, -9), -1e300, 1e300, np.inf, -np.inf],
            [np.nan] * 7,
        ]
    )
    held = Held.open(pd.DataFrame({"x": x}), Reading("x"))
    n, valid, counts = below(held, grid)
    assert (n, valid) == (x.size, x.size - 7)
    assert counts == [int((x < c).sum()) for c in candidates]


@pytest.mark.parametrize(("lower", "upper"), [(0, 3), (0.5, 9.5), (-7, 2000), (1, 1e6), (0, 1e15)])
def test_candidates_of_whole_numbers_reach_from_end_to_end(lower: float, upper: float) -> None:
    grid = Grid.over(wanted(lower, upper), integer=True)
    assert grid[0] == math.ceil(lower)
    assert grid[grid.size - 1] <= math.floor(upper) < grid[grid.size]
    assert grid.width == int(grid.width)
    assert grid.size <= CANDIDATES


def test_the_quantiles_are_those_that_were_asked_for() -> None:
    """A thousand records, one between every two candidates: ten of them lie below the candidate 10,
    and 990 below 990.
    """
    grid = Grid.over(wanted(0, 1023), integer=True)
    held = Held.open(pd.DataFrame({"x": np.arange(1000) + 0.5}), Reading("x"))
    _, valid, counts = below(held, grid)
    for quantiles, expected in (((0.01, 0.99), (10, 990)), ((0.123, 0.5), (123, 500))):
        asked = wanted(0, 1023, quantiles=quantiles)
        found = choose(valid, counts, grid, asked, CERTAIN, 1)
        assert found == Bounds(*expected, outside="clamp")


@pytest.mark.parametrize(
    ("counts", "expected"),
    [([0, 50, 100], (0, 2)), ([50, 100, 100], (0, 1)), ([0, 0, 50], (1, 2))],
)
def test_two_quantiles_at_one_candidate_widen_to_its_neighbours(
    counts: list[int], expected: tuple[int, int]
) -> None:
    grid, asked = Grid(0.0, 1.0, 3), wanted(0, 2, quantiles=(0.49, 0.51))
    assert choose(100, counts, grid, asked, CERTAIN, 1) == Bounds(*expected, outside="clamp")


def test_bounds_lie_within_what_was_asked_for(rng: np.random.Generator) -> None:
    """Rounding may put the last candidate an ulp beyond."""
    beyond = 0
    for lower, upper in rng.uniform(0, 1, (1000, 2)):
        asked = wanted(-lower, upper)
        grid = Grid.over(asked, integer=False)
        if grid[grid.size - 1] <= asked.upper:
            continue
        beyond += 1
        found = choose(100, [0] * (grid.size - 1) + [100], grid, asked, CERTAIN, 1)
        assert found.upper == asked.upper
        if beyond == 5:
            break
    assert beyond == 5


def test_more_records_per_person_make_the_choice_as_much_noisier() -> None:
    """Two candidates whose scores differ by 2, at a sensitivity of 2 for each of 4 records: the
    worse is taken with probability exp(-epsilon/8)/2 (permute-and-flip). Within 5.5 standard errors
    of 400 choices: a false alarm in 10^7, and the noise for a single record is 10 of them away.
    """
    expected = math.exp(-4 / 8) / 2
    picks = [_quantile([50, 49], 100, 0.5, Decimal(4), 4) for _ in range(400)]
    assert abs(np.mean(picks) - expected) < 5.5 * math.sqrt(expected * (1 - expected) / 400)


def test_each_quantile_has_half_of_epsilon() -> None:
    """Both together cost epsilon. As above, for one record and at half of 4; the upper quantile is
    certain. With all of epsilon the share would be 8 standard errors lower.
    """
    grid, asked = Grid(0.0, 1.0, 3), wanted(0, 2, quantiles=(0.5, 0.99))
    expected = math.exp(-2 / 2) / 2
    picks = [choose(100, [50, 49, 99], grid, asked, Decimal(4), 1).lower for _ in range(700)]
    assert abs(np.mean(picks) - expected) < 5.5 * math.sqrt(expected * (1 - expected) / 700)
