"""Steps of an interval, and products of them, against what they are defined to be."""

import math

import numpy as np
import pytest

from noisewise import Bounds, families
from noisewise.curator.plan import Plan
from noisewise.curator.settings import Settings
from noisewise.mechanism.ruler import TOP, Ruler

INTERVALS = [
    (0.0, 1.0),
    (20.0, 80.0),
    (-3.0, 5.1),
    (1e9, 1e9 + 0.001),  # here rounding moves a value by a hundred steps
    (-7e11, -7e11 + 1),
    (0.1, 0.7),
    (-1e150, 1e150),
    (3e-149, 5e-149),
]


@pytest.mark.parametrize("interval", INTERVALS)
@pytest.mark.parametrize("redact", [True, False])
def test_a_step_is_that_of_its_definition(
    interval: tuple[float, float], redact: bool, rng: np.random.Generator
) -> None:
    """Missing or outside, clipped or rounded: one rule after the other, for one value at a time."""
    lower, upper = interval
    ruler = Ruler(lower, upper, redact)
    centre, radius = (lower + upper) / 2, (upper - lower) / 2
    edges = np.array([lower, upper, centre, 0.0, 1e308, -1e308, math.inf, -math.inf, math.nan])
    x = [edges]
    for towards in (-math.inf, math.inf):
        for _ in range(30):
            x.append(np.nextafter(x[-1], towards))
        x.append(edges)
    x.append(centre + radius * rng.uniform(-1.2, 1.2, 2000))
    x.append(centre + radius * (rng.integers(-TOP - 3, TOP + 3, 2000) + 0.5) / TOP)
    values = np.concatenate(x)
    with np.errstate(all="ignore"):
        found = ruler.point(values, ruler.rounded(values), 7.5)
    for value, step in zip(values.tolist(), found.tolist(), strict=True):
        if math.isnan(value) or (redact and not lower <= value <= upper):
            assert step == 7.5
        else:
            far = (value - centre) * (TOP / radius) + 0.5
            nearest = math.copysign(math.inf, far) if math.isinf(far) else math.floor(far)
            assert step == min(max(nearest, -TOP), TOP)


def test_products_of_floats_are_those_of_integers(rng: np.random.Generator) -> None:
    """Those halfway between two whole numbers, and the largest, among them."""
    bounds = Bounds(-1, 1, outside="redact")
    settings = Settings(family=families.Moments({"a": bounds, "b": bounds}), epsilon=1)
    lattice = Plan.widest(settings).lattice
    halves = 2**9 * (2 * rng.integers(-512, 512, (2, 3000)) + 1)
    ends = np.array([[-TOP, TOP, TOP, 0, TOP - 1], [-TOP, -TOP, TOP, TOP, TOP - 1]])
    steps = np.concatenate([halves, rng.integers(-TOP, TOP + 1, (2, 3000)), ends], axis=1)
    _, a, b, aa, ab, bb = (part.tolist() for part in lattice.integers(steps / TOP))
    assert [a, b] == steps.tolist()
    half = TOP // 2
    assert aa == [(j * j + half) // TOP - half for j in a]
    assert ab == [(j * k + half) // TOP for j, k in zip(a, b, strict=True)]
    assert bb == [(k * k + half) // TOP - half for k in b]
