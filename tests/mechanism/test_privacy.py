"""Privacy arithmetic: exact decimals, certified scales, and the noise that OpenDP really draws."""

import inspect
import math
from collections.abc import Callable
from decimal import Decimal

import numpy as np
import pytest
from scipy import optimize, stats

import noisewise
from conftest import FALSE_ALARM
from noisewise.errors import UnsupportedCombination
from noisewise.mechanism import opendp, privacy
from noisewise.mechanism.noise import DiscreteGaussian, DiscreteLaplace, Noise


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
    "epsilon", ["0.1", "0.5", "1", "3", "0.3333333333333333333333333", "1e-6", "50"]
)
@pytest.mark.parametrize("delta", [1, 2, 60, 2**20, 1179648])
def test_the_scale_is_the_smallest_that_opendp_certifies(delta: int, epsilon: str) -> None:
    target = Decimal(epsilon)
    scale = opendp.laplace_scale(delta, target)
    assert Decimal(opendp._laplace(scale).map(delta)) <= target
    assert Decimal(opendp._laplace(math.nextafter(scale, 0)).map(delta)) > target
    assert scale == pytest.approx(delta / float(target), rel=1e-12)


@pytest.mark.parametrize("rho", ["0.001", "0.5", "3", "0.3333333333333333333333333"])
@pytest.mark.parametrize("squared", [1, 2, 2**41 + 12345])
def test_the_sd_is_the_smallest_that_opendp_certifies(squared: int, rho: str) -> None:
    distance, target = math.sqrt(squared), Decimal(rho)
    scale = opendp.gaussian_scale(squared, target)
    assert Decimal(opendp._gaussian(scale).map(distance)) <= target
    assert Decimal(opendp._gaussian(scale * (1 - 1e-14)).map(distance)) > target
    assert scale == pytest.approx(distance / math.sqrt(2 * float(target)), rel=1e-12)


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
    with pytest.raises(ValueError, match="between 0 and 1"):
        privacy.exact_delta("1.5")


def test_noise_beyond_64_bits_is_refused() -> None:
    with pytest.raises(UnsupportedCombination, match="64-bit"):
        opendp.laplace_scale(2**20, Decimal("1e-13"))
    with pytest.raises(UnsupportedCombination, match="63 bits"):
        opendp.check_headroom(2**44, [(0, 2**20)], 1.0)
    opendp.check_headroom(2**42, [(0, 2**20)], 1.0)
    with pytest.raises(ValueError, match="positive"):
        opendp.add_noise([1], 0.0)


@pytest.mark.parametrize("scale", [0.5, 0.9, 3.0, 1e3, 1e6, 1e9])
@pytest.mark.parametrize("kind", [DiscreteLaplace, DiscreteGaussian])
def test_opendp_draws_the_declared_law(
    scale: float, kind: Callable[..., Noise], rng: np.random.Generator
) -> None:
    """KS of the randomised probability transform. At 40 000 draws a scale that is 5 % wrong fails
    it.
    """
    size = 40_000
    draws = np.array(opendp.add_noise([0] * size, scale, kind is DiscreteGaussian), dtype=float)[
        :, None
    ]
    jitter = rng.random(draws.shape)

    def p_value(assumed: Noise) -> float:
        u = assumed.cdf(draws) - jitter * np.exp(assumed.log_density(draws))
        z = stats.norm.ppf(np.clip(u, 1e-12, 1 - 1e-12))
        # far more powerful than KS against a wrong scale
        wide = abs((z**2).mean() - 1) * math.sqrt(size / 2)
        return min(stats.kstest(u[:, 0], "uniform").pvalue, 2 * stats.norm.sf(wide))

    assert p_value(kind(scale, 1.0)) > FALSE_ALARM
    assert p_value(kind(scale * 1.05, 1.0)) < FALSE_ALARM


@pytest.mark.parametrize("gaussian", [False, True])
def test_every_statistic_gets_noise_of_its_own(gaussian: bool) -> None:
    """The reference implementation added one shared draw to every count."""
    noise = np.array([opendp.add_noise([0, 0, 0], 1e6, gaussian) for _ in range(400)], dtype=float)
    correlation = np.corrcoef(noise.T)[np.triu_indices(3, 1)]
    assert np.abs(correlation).max() < 5.5 / math.sqrt(400)


def test_private_argmin_follows_its_scores_and_its_epsilon() -> None:
    scores = [50, 0, 50]
    assert [opendp.private_argmin(scores, 1, Decimal(10)) for _ in range(20)] == [1] * 20
    picks = [opendp.private_argmin([1, 0], 1, Decimal(1)) for _ in range(4000)]
    # Permute-and-flip at epsilon = 1, sensitivity 1: the worse of two is taken with probability
    # e^{-1/2}/2.
    expected = 4000 * math.exp(-0.5) / 2
    assert abs(sum(pick == 0 for pick in picks) - expected) < 5 * math.sqrt(4000 * 0.3 * 0.7)


def test_no_function_of_the_release_side_takes_a_seed() -> None:
    from noisewise.curator import ledger, plan, private_bounds, publish, records, sums

    for module in (ledger, plan, private_bounds, publish, records, sums, opendp):
        source = inspect.getsource(module)
        assert "seed" not in source.replace("There is no seed.", "")
        assert "random" not in source.replace("randomness", "")
    assert not {"seed", "rng", "random_state"} & set(
        inspect.signature(noisewise.release).parameters
    )
