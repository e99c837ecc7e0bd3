"""The sensitivity of several columns against a search over pairs of records, through the integers
that are really summed.
"""

from collections.abc import Sequence
from fractions import Fraction

import numpy as np
import pytest
from numpy.typing import NDArray

from noisewise import Bounds, families
from noisewise.mechanism.lattice import lattice_for
from noisewise.mechanism.mechanisms import GaussianMechanism, LaplaceMechanism, Mechanism
from noisewise.mechanism.privacy import Relation
from noisewise.mechanism.products import Products
from noisewise.mechanism.products_sensitivity import exact_pair, exact_record, products_sensitivity
from noisewise.model.columns import Number

MECHANISMS = [LaplaceMechanism(), GaussianMechanism()]
RELATIONS: list[Relation] = ["replace_one", "add_remove", "move"]
POPULATION, ROUNDS = 200, 900
"""Of the search: pairs at a time, and how often each is moved."""
mechanisms = pytest.mark.parametrize("mechanism", MECHANISMS, ids=["L1", "L2"])


def products(numbers: int, *levels: int) -> Products:
    columns = {f"x{j}": Bounds(-1, 1, outside="redact") for j in range(numbers)}
    factors = {f"f{j}": [f"l{i}" for i in range(many)] for j, many in enumerate(levels)}
    made = lattice_for(families.Moments(columns | factors, less=0.5), None)
    assert isinstance(made, Products)
    return made


def contributions(lattice: Products, records: NDArray, weight: int = 0) -> NDArray:
    """The integers of each record, of shape (columns, records); the count in steps of its own."""
    parts = np.stack(lattice.integers(list(records)), axis=-1)
    parts[:, 0] *= weight
    return parts


def powers(mechanism: Mechanism, moved: NDArray) -> NDArray:
    """The p-th power of the size of each row, in floats: a share of 1e-15 does not matter."""
    return (np.abs(moved.astype(float)) ** mechanism.order).sum(axis=-1)


def search(
    lattice: Products, mechanism: Mechanism, rng: np.random.Generator, rounds: int = ROUNDS
) -> tuple[float, NDArray, NDArray]:
    """The furthest two records that count, and how far apart they are, as a power."""
    owners = lattice.columns
    number = np.array([isinstance(one, Number) for one in owners])[:, None]
    levels = np.array([1 if isinstance(one, Number) else len(one.levels) for one in owners])

    def start() -> NDArray:
        u = np.clip(rng.uniform(-1.5, 1.5, (len(owners), POPULATION)), -1, 1)
        return np.where(number, u, rng.integers(0, levels[:, None], u.shape).astype(float))

    def moved(x: NDArray, scale: float) -> NDArray:
        u = np.clip(x + rng.normal(size=x.shape) * scale * (rng.random(x.shape) < 0.3), -1, 1)
        other = rng.integers(0, levels[:, None], x.shape)
        return np.where(number, u, np.where(rng.random(x.shape) < 0.1, other, x))

    def apart(x: NDArray, y: NDArray) -> NDArray:
        return powers(mechanism, contributions(lattice, x) - contributions(lattice, y))

    x, y = start(), start()
    best = apart(x, y)
    for turn in range(rounds):
        scale = 0.6 * 0.002 ** (turn / rounds)
        x_new, y_new = moved(x, scale), moved(y, scale)
        new = apart(x_new, y_new)
        better = new > best
        x, y = np.where(better, x_new, x), np.where(better, y_new, y)
        best = np.where(better, new, best)
    top = int(best.argmax())
    return float(best[top]), x[:, top], y[:, top]


@mechanisms
@pytest.mark.parametrize("q", range(1, 7))
def test_numeric_columns(q: int, mechanism: Mechanism, rng: np.random.Generator) -> None:
    lattice = products(q)
    found, x, y = search(lattice, mechanism, rng)
    declared = mechanism.power(lattice.sensitivity.pair)
    assert found <= declared
    assert mechanism.distance(declared) <= 1.02 * found ** (1 / mechanism.order)
    if mechanism.order == 1:  # u = 1 against u = -1/(q + 1), or any column turned about
        first, second = (x, y) if np.abs(x).min() > np.abs(y).min() else (y, x)
        assert np.allclose(np.abs(first), 1, atol=0.02)
        assert np.allclose(second * first, -1 / (q + 1), atol=0.05)
        assert exact_pair(q, 0, 0)[0] == Fraction(q * (q + 3), 2) + Fraction(q, 2 * (q + 1))


@mechanisms
@pytest.mark.parametrize(
    ("q", "levels"),
    [(0, (2,)), (0, (3, 2)), (1, (2,)), (1, (4,)), (2, (2, 3)), (3, (2,)), (1, (2, 2, 2))],
)
def test_factors_are_counted_as_what_they_are(
    q: int, levels: Sequence[int], mechanism: Mechanism, rng: np.random.Generator
) -> None:
    lattice = products(q, *levels)
    found, _, _ = search(lattice, mechanism, rng, ROUNDS // 3)
    declared = mechanism.power(lattice.sensitivity.pair)
    assert found <= declared
    assert mechanism.distance(declared) <= 1.05 * found ** (1 / mechanism.order)


@mechanisms
@pytest.mark.parametrize("relation", RELATIONS)
@pytest.mark.parametrize(
    ("q", "levels"), [*((q, ()) for q in range(1, 7)), (2, (2, 3)), (0, (2,)), (12, ())]
)
def test_no_neighbours_lie_further_apart_with_the_count(
    q: int,
    levels: Sequence[int],
    relation: Relation,
    mechanism: Mechanism,
    rng: np.random.Generator,
) -> None:
    lattice = products(q, *levels)
    weight, reach = mechanism.reach(lattice, relation)
    assert weight >= lattice.TOP / 2
    u = np.clip(rng.uniform(-1.6, 1.6, (q, 3000)), -1, 1)
    corner = np.sign(rng.uniform(-1, 1, (q, 300)))
    middle = np.broadcast_to(np.array([0.0, -1 / (q + 1), 0.5, 0.7071]), (q, 4))
    numbers = np.concatenate([u, corner, middle, np.ones((q, 1))], axis=1)
    chosen = [rng.integers(0, many, numbers.shape[1]) for many in levels]
    records = np.concatenate([numbers, *(one[None, :].astype(float) for one in chosen)])
    records[q:, -1] = [many - 1 for many in levels]
    missing = records.copy()[:, :1]
    missing[0] = np.nan
    moved = contributions(lattice, records, weight)
    nothing = contributions(lattice, missing, weight)
    assert not nothing.any()
    alone = powers(mechanism, moved)
    # two groups move at once; or one record is replaced, maybe by one that does not count
    most = 2 * alone.max() if relation == "move" else alone.max()
    if relation != "add_remove":
        other = moved[rng.permutation(len(moved))]
        most = max(most, powers(mechanism, moved - other).max())
        most = max(most, powers(mechanism, moved - moved[-1]).max())
    assert most <= reach
    if relation != "replace_one":  # there the pairs of the other tests lie furthest
        assert mechanism.distance(reach) <= 1.1 * most ** (1 / mechanism.order)


@mechanisms
@pytest.mark.parametrize("q", range(1, 13))
def test_the_count_costs_numeric_columns_nothing(q: int, mechanism: Mechanism) -> None:
    """As against a release without it, whose squares would not be less anything."""
    lattice, p = products(q), mechanism.order
    for relation, without in (
        ("replace_one", exact_pair(q, 0, 0)[p - 1]),
        ("add_remove", exact_record(q, 0, Fraction(0))[p - 1]),
    ):
        weight, reach = mechanism.reach(lattice, relation)  # type: ignore[arg-type]
        plain = mechanism.distance(int(without * lattice.TOP**p))
        assert mechanism.distance(reach) <= 1.001 * plain
        # about as much as a column, or more: of q = 1, 3/4 or 1/2 of it in L1
        assert weight >= 0.49 * lattice.TOP * q ** (1 / p)


def test_roundings_are_counted() -> None:
    top = Products.TOP
    for q in range(1, 7):
        size = products_sensitivity(q, 0, 0, top).pair
        assert size.l1 - int(exact_pair(q, 0, 0)[0] * top) == q * (q + 1) // 2
        root = float(exact_pair(q, 0, 0)[1]) ** 0.5 * top + (q * (q + 1) / 2) ** 0.5
        assert 0 <= size.l2_squared - root**2 < 1e7  # of about 1e12


def test_many_columns_take_no_time() -> None:
    assert products_sensitivity(0, 6, 6, Products.TOP).pair.l1 > 0
    assert products_sensitivity(6, 3, 3, Products.TOP).pair.l1 > 0
