"""Privacy arithmetic: exact decimals, certified scales, and the noise that OpenDP really draws."""

import math
from decimal import Decimal

import pytest
from scipy import optimize, stats

from noisewise.mechanism import opendp, privacy


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (0.1, "0.1"),
        ("0.1", "0.1"),
        (1, "1"),
        (Decimal("0.30"), "0.3"),
        ("1e-6", "0.000001"),
        (50.0, "50"),
    ],
)
def test_epsilon_is_what_a_person_wrote(value: object, expected: str) -> None:
    assert privacy.text(privacy.exact_epsilon(value)) == expected  # type: ignore[arg-type]


def test_composition_is_exact() -> None:
    tenth = privacy.exact_epsilon(0.1)
    assert privacy.compose(tenth, tenth, tenth) == privacy.exact_epsilon(0.3)
    assert 0.1 + 0.1 + 0.1 != 0.3
    tiny, large = Decimal("1e-90"), Decimal("1e90")
    assert privacy.remaining(privacy.compose(large, tiny), large) == tiny


@pytest.mark.parametrize(
    "value",
    [
        0,
        -1,
        "0",
        "-0.5",
        float("nan"),
        float("inf"),
        "NaN",
        "inf",
        "abc",
        "",
        None,
        True,
        "1e-200",
        "1e400",
    ],
)
def test_impossible_epsilons_are_refused(value: object) -> None:
    with pytest.raises(ValueError, match="must"):
        privacy.exact_epsilon(value)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("epsilon", "delta"), [(0.1, 1e-9), (1.0, 1e-6), (3.0, 1e-5), (10.0, 1e-12)]
)
def test_rho_is_the_largest_within_epsilon_and_delta(epsilon: float, delta: float) -> None:
    """Against the formula of Canonne, Kamath & Steinke (2020), minimised here; and the normal
    mechanism's own, exact delta.
    """
    rho = float(opendp.concentrated_within(Decimal(str(epsilon)), Decimal(str(delta))).amount)

    def log_delta(r: float) -> float:
        def at(log_a: float) -> float:
            a = 1 + math.exp(log_a)
            return (a - 1) * (a * r - epsilon) - math.log(a - 1) + a * math.log1p(-1 / a)

        return float(
            optimize.minimize_scalar(
                at, bounds=(-8, 12), method="bounded", options={"xatol": 1e-10}
            ).fun
        )

    assert log_delta(rho) <= math.log(delta) + 1e-6
    assert log_delta(rho * 1.0001) > math.log(delta)
    sd = 1 / math.sqrt(2 * rho)
    exact = stats.norm.cdf(0.5 / sd - epsilon * sd) - math.exp(epsilon) * stats.norm.cdf(
        -0.5 / sd - epsilon * sd
    )
    assert 0.01 * delta < exact < delta


def test_a_cost_counts_in_rho_but_not_the_other_way() -> None:
    assert privacy.pure("0.1").counted_in("rho") == Decimal("0.005")
    assert privacy.concentrated("0.1").counted_in("rho") == Decimal("0.1")
    with pytest.raises(ValueError, match="no pure epsilon"):
        privacy.concentrated("0.1").counted_in("epsilon")


@pytest.mark.parametrize("delta", [1, "1", 1.0, "1.5", "1e3"])
def test_a_delta_is_below_1(delta: object) -> None:
    """With delta = 1 anything may be published, at no cost."""
    with pytest.raises(ValueError, match="between 0 and 1"):
        privacy.exact_delta(delta)  # type: ignore[arg-type]
    assert privacy.exact_delta("0.999") == Decimal("0.999")
