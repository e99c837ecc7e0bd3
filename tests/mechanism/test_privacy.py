"""Privacy arithmetic: exact decimals, certified scales, and the noise that OpenDP really draws."""

import inspect
import math
from decimal import Decimal

import numpy as np
import pytest
from scipy import stats

import noisewise
from conftest import FALSE_ALARM
from noisewise.errors import UnsupportedCombination
from noisewise.mechanism import privacy, secure
from noisewise.mechanism.noise import DiscreteLaplace


@pytest.mark.parametrize(
    ("value", "expected"), [(0.1, "0.1"), ("0.1", "0.1"), (1, "1"), (Decimal("0.30"), "0.3"), ("1e-6", "0.000001"), (50.0, "50")]
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
    "value", [0, -1, "0", "-0.5", float("nan"), float("inf"), "NaN", "inf", "abc", "", None, True, "1e-200", "1e400"]
)
def test_impossible_epsilons_are_refused(value: object) -> None:
    with pytest.raises(ValueError, match="must"):
        privacy.exact_epsilon(value)  # type: ignore[arg-type]


@pytest.mark.parametrize("epsilon", ["0.1", "0.5", "1", "3", "0.3333333333333333333333333", "1e-6", "50"])
@pytest.mark.parametrize("delta", [1, 2, 60, 2**20, 1179648])
def test_the_scale_is_the_smallest_that_opendp_certifies(delta: int, epsilon: str) -> None:
    target = Decimal(epsilon)
    scale = secure.laplace_scale(delta, target)
    assert Decimal(secure._laplace(scale).map(delta)) <= target
    assert Decimal(secure._laplace(math.nextafter(scale, 0)).map(delta)) > target
    assert scale == pytest.approx(delta / float(target), rel=1e-12)


def test_noise_beyond_64_bits_is_refused() -> None:
    with pytest.raises(UnsupportedCombination, match="64-bit"):
        secure.laplace_scale(2**20, Decimal("1e-13"))
    with pytest.raises(UnsupportedCombination, match="63 bits"):
        secure.check_headroom(2**44, [(0, 2**20)], 1.0)
    secure.check_headroom(2**42, [(0, 2**20)], 1.0)
    with pytest.raises(ValueError, match="positive"):
        secure.add_laplace([1], 0.0)


@pytest.mark.parametrize("scale", [0.5, 0.9, 3.0, 1e3, 1e6, 1e9])
def test_opendp_draws_the_declared_law(scale: float, rng: np.random.Generator) -> None:
    """KS of the randomised probability transform. At 40 000 draws a scale that is 5 % wrong fails it."""
    size = 40_000
    law = DiscreteLaplace(scale, 1.0)
    draws = np.array(secure.add_laplace([0] * size, scale), dtype=float)[:, None]
    jitter = rng.random(draws.shape)

    def p_value(assumed: DiscreteLaplace) -> float:
        u = assumed.cdf(draws) - jitter * np.exp(assumed.log_density(draws))
        z = stats.norm.ppf(np.clip(u, 1e-12, 1 - 1e-12))
        wide = abs((z**2).mean() - 1) * math.sqrt(size / 2)  # far more powerful than KS against a wrong scale
        return min(stats.kstest(u[:, 0], "uniform").pvalue, 2 * stats.norm.sf(wide))

    assert p_value(law) > FALSE_ALARM
    assert p_value(DiscreteLaplace(scale * 1.05, 1.0)) < FALSE_ALARM


def test_every_statistic_gets_noise_of_its_own() -> None:
    """The reference implementation added one shared draw to every count."""
    noise = np.array([secure.add_laplace([0, 0, 0], 1e6) for _ in range(400)], dtype=float)
    correlation = np.corrcoef(noise.T)[np.triu_indices(3, 1)]
    assert np.abs(correlation).max() < 5.5 / math.sqrt(400)


def test_private_argmin_follows_its_scores_and_its_epsilon() -> None:
    scores = [50, 0, 50]
    assert [secure.private_argmin(scores, 1, Decimal(10)) for _ in range(20)] == [1] * 20
    picks = [secure.private_argmin([1, 0], 1, Decimal(1)) for _ in range(4000)]
    # Permute-and-flip at epsilon = 1, sensitivity 1: the worse of two is taken with probability e^{-1/2}/2.
    expected = 4000 * math.exp(-0.5) / 2
    assert abs(sum(pick == 0 for pick in picks) - expected) < 5 * math.sqrt(4000 * 0.3 * 0.7)


def test_no_function_of_the_release_side_takes_a_seed() -> None:
    from noisewise.curator import ledger, plan, publish, quantile, records, statistics

    for module in (ledger, plan, publish, quantile, records, statistics, secure):
        source = inspect.getsource(module)
        assert "seed" not in source.replace("There is no seed.", "")
        assert "random" not in source.replace("randomness", "")
    assert not {"seed", "rng", "random_state"} & set(inspect.signature(noisewise.release).parameters)
