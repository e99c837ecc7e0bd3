"""Columns as people and files name them, and the statistics of several."""

import numpy as np
import pytest

from noisewise import Bins, Bounds, PrivateBounds, families

BP = Bounds(60, 220, outside="redact")


def test_the_statistic_is_every_sum_and_every_product_that_is_not_known(rng) -> None:
    family = families.Moments({"bp": BP, "sex": ["f", "m"], "ward": ["a", "b", "c"]}, less=0.5)
    assert family.numbers == ("bp", "sex[m]", "ward[b]", "ward[c]")
    assert family.products == ((0, 0), (0, 1), (0, 2), (0, 3), (1, 2), (1, 3))
    u, sex, ward = rng.uniform(-1, 1, 50), rng.integers(0, 2, 50), rng.integers(0, 3, 50)
    z = [u, 1.0 * sex, 1.0 * (ward == 1), 1.0 * (ward == 2)]
    found = [column.sum() for column in family.statistic(z)]
    products = [u @ u - 25, u @ z[1], u @ z[2], u @ z[3], z[1] @ z[2], z[1] @ z[3]]
    assert found == pytest.approx([*(one.sum() for one in z), *products])
    assert family.dimension == len(found)


def test_a_file_gives_the_same_columns_again() -> None:
    for family in (
        families.Moments({"bp": BP, "n": [1, 2], "one": ["x"]}),
        families.Table({"sex": ["f", "m"], "age": Bins([0, 10, 20.5])}),
    ):
        fields = family.describe()
        kind = fields.pop("kind")
        assert families.REGISTRY[kind](**fields) == family


def test_cells_are_in_the_order_of_the_columns_the_last_varying_fastest() -> None:
    table = families.Table({"sex": ["f", "m"], "age": Bins([0, 10, 20])})
    assert table.labels == ("f, [0, 10)", "f, [10, 20]", "m, [0, 10)", "m, [10, 20]")
    prior = table.weak_prior(None)
    assert np.asarray(prior.concentration).sum() == pytest.approx(2)  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: families.Moments({}), "no column"),
        (lambda: families.Moments({"bp": (60, "x")}), "all text or all whole"),
        (lambda: families.Moments({"bp": 3}), "neither bounds nor levels"),
        (lambda: families.Moments("bp"), "by name"),
        (lambda: families.Moments({"sex": ["f", "f"]}), "named twice"),
        (lambda: families.Moments({"age": Bins([0, 1])}), "families.Table"),
        (lambda: families.Moments({f"c{j}": BP for j in range(13)}), "12 at most"),
        (
            lambda: families.Moments(
                {"bp": PrivateBounds(0, 9, epsilon="1", outside="clamp")},
            ),
            "private bounds",
        ),
        (lambda: families.Moments({"k": list(range(70))}), "64 at most"),
        (lambda: families.Moments({"bp": BP}, less=2), "from 0 to 1"),
        (lambda: families.Table({"bp": BP}), "Bins"),
        (lambda: families.Table({"a": list(range(200)), "b": list(range(101))}), "20000"),
        (lambda: families.Table({"one": ["x"]}), "1 cells"),
        (lambda: Bins([1]), "at least two"),
        (lambda: Bins([1, 1]), "increase"),
    ],
)
def test_what_is_no_column_says_so(make, said) -> None:
    with pytest.raises(ValueError, match=said):
        make()
