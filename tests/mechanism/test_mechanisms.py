"""Every mechanism of the registry: the smallest scale, the declared noise, the right cost."""

import inspect
import math
from decimal import Decimal
from importlib import import_module
from pkgutil import iter_modules

import numpy as np
import pytest
from scipy import stats

import noisewise
from noisewise import curator
from noisewise.errors import UnsupportedCombination
from noisewise.mechanism import opendp
from noisewise.mechanism.mechanisms import MECHANISMS, Mechanism, mechanism_for
from noisewise.mechanism.noise import Noise
from noisewise.mechanism.privacy import concentrated, pure

FALSE_ALARM = 1e-6
MEASUREMENTS = {"epsilon": opendp.laplace, "rho": opendp.gaussian}
every_mechanism = pytest.mark.parametrize("mechanism", MECHANISMS.values(), ids=list(MECHANISMS))


def test_a_cost_picks_its_mechanism() -> None:
    for cost in (pure("0.5"), concentrated("0.5")):
        assert mechanism_for(cost).currency == cost.currency


@every_mechanism
@pytest.mark.parametrize(
    "amount", ["0.1", "0.5", "1", "3", "0.3333333333333333333333333", "1e-6", "50"]
)
@pytest.mark.parametrize("power", [1, 2, 60, 2**20, 1179648, 2**30 + 12345])
def test_the_scale_is_the_smallest_that_opendp_certifies(
    mechanism: Mechanism, power: int, amount: str
) -> None:
    """A normal scale is raised by a few floats, for the root of the power."""
    target, distance = Decimal(amount), mechanism.distance(power)
    measurement = MEASUREMENTS[mechanism.currency]
    scale = mechanism.smallest_scale(power, target)
    smaller = math.nextafter(scale, 0) if mechanism.order == 1 else scale * (1 - 1e-14)
    assert Decimal(measurement(scale).map(distance)) <= target
    assert Decimal(measurement(smaller).map(distance)) > target
    spent = mechanism.spent(np.array([distance]), np.array([scale]))
    assert spent[0] == pytest.approx(float(target), rel=1e-12)


@every_mechanism
@pytest.mark.parametrize("scale", [0.5, 0.9, 3.0, 1e3, 1e6, 1e9])
def test_opendp_draws_the_declared_law(
    scale: float, mechanism: Mechanism, rng: np.random.Generator
) -> None:
    """KS of the randomised probability transform. At 40 000 draws a scale that is 5 % wrong fails
    it.
    """
    size = 40_000
    draws = np.array(mechanism.add_noise([0] * size, scale), dtype=float)[:, None]
    jitter = rng.random(draws.shape)

    def p_value(assumed: Noise) -> float:
        u = assumed.cdf(draws) - jitter * np.exp(assumed.log_density(draws))
        z = stats.norm.ppf(np.clip(u, 1e-12, 1 - 1e-12))
        # far more powerful than KS against a wrong scale
        wide = abs((z**2).mean() - 1) * math.sqrt(size / 2)
        return min(stats.kstest(u[:, 0], "uniform").pvalue, 2 * stats.norm.sf(wide))

    assert p_value(mechanism.law(scale, 1.0)) > FALSE_ALARM
    assert p_value(mechanism.law(scale * 1.05, 1.0)) < FALSE_ALARM


@every_mechanism
def test_every_statistic_gets_noise_of_its_own(mechanism: Mechanism) -> None:
    """The reference implementation added one shared draw to every count."""
    noise = np.array([mechanism.add_noise([0, 0, 0], 1e6) for _ in range(400)], dtype=float)
    correlation = np.corrcoef(noise.T)[np.triu_indices(3, 1)]
    assert np.abs(correlation).max() < 5.5 / math.sqrt(400)


@every_mechanism
@pytest.mark.parametrize("scale", [0.05, 0.5, 2.0, 1e3])
def test_the_sd_is_that_of_the_law_or_a_hair_more(mechanism: Mechanism, scale: float) -> None:
    k = np.arange(-60 * max(1, int(scale)), 60 * max(1, int(scale)) + 1, dtype=float)[:, None]
    exact = math.sqrt(float((k**2 * np.exp(mechanism.law(scale, 1.0).log_density(k))).sum()))
    assert exact <= mechanism.sd(scale) * (1 + 1e-9)
    if scale >= 2 or mechanism.order == 1:
        assert exact == pytest.approx(mechanism.sd(scale), rel=1e-6)


@every_mechanism
def test_the_likelihood_ratio_is_that_of_the_law(
    mechanism: Mechanism, rng: np.random.Generator
) -> None:
    y, first, second = (rng.integers(-9, 9, shape).astype(float) for shape in ((50, 3), 3, 3))
    law = mechanism.law(2.5, 1.0)
    wanted = (law.log_density(y - first) - law.log_density(y - second)).sum(axis=1)
    assert mechanism.log_ratio(y, first, second, 2.5) == pytest.approx(wanted)


@every_mechanism
@pytest.mark.parametrize("power", [1, 2, 3, 4, 5, 8, 9, 10, 2**40, 2**40 + 1])
def test_powers_and_distances_belong_together(mechanism: Mechanism, power: int) -> None:
    p = mechanism.order
    assert mechanism.distance(power) ** p == pytest.approx(power, rel=1e-12)
    weight = mechanism.least_weight(power)
    assert (weight - 1) ** p < power <= weight**p
    person = mechanism.of_person(power, 7)
    assert mechanism.distance(person) == pytest.approx(7 * mechanism.distance(power), rel=1e-12)
    assert mechanism.apart_by_ones(7) == pytest.approx(np.linalg.norm(np.ones(7), ord=p))


@every_mechanism
def test_noise_beyond_64_bits_is_refused(mechanism: Mechanism) -> None:
    with pytest.raises(UnsupportedCombination, match="64-bit"):
        mechanism.smallest_scale(2**60, Decimal("1e-26"))
    with pytest.raises(ValueError, match="positive"):
        mechanism.add_noise([1], 0.0)


def test_sums_beyond_63_bits_are_refused() -> None:
    with pytest.raises(UnsupportedCombination, match="63 bits"):
        opendp.check_headroom(2**44, [(0, 2**20)], 1.0)
    opendp.check_headroom(2**42, [(0, 2**20)], 1.0)


@pytest.mark.parametrize("n", [0, 2**42])
def test_sums_leave_room_for_two_hundred_scales_of_noise(n: int) -> None:
    room = (2**63 - n * 2**20) / 200
    opendp.check_headroom(n, [(-5, 5), (0, 2**20)], 0.999 * room)
    with pytest.raises(UnsupportedCombination, match="63 bits"):
        opendp.check_headroom(n, [(-5, 5), (0, 2**20)], 1.001 * room)


def test_noise_fits_beside_the_largest_sum() -> None:
    """A sum whose size is not public is clipped at MOST_SUM; 200 scales of noise fit above it."""
    room = (2**63 - opendp.MOST_SUM) / 200
    opendp.check_scale(0.999 * room)
    for scale in (1.001 * room, math.inf, math.nan):
        with pytest.raises(UnsupportedCombination, match="64-bit"):
            opendp.check_scale(scale)


def test_private_argmin_follows_its_scores_and_its_epsilon() -> None:
    scores = [50, 0, 50]
    assert [opendp.private_argmin(scores, 1, Decimal(10)) for _ in range(20)] == [1] * 20
    picks = [opendp.private_argmin([1, 0], 1, Decimal(1)) for _ in range(4000)]
    # Permute-and-flip at epsilon = 1, sensitivity 1: the worse of two is taken with probability
    # e^{-1/2}/2.
    expected = 4000 * math.exp(-0.5) / 2
    assert abs(sum(pick == 0 for pick in picks) - expected) < 5 * math.sqrt(4000 * 0.3 * 0.7)


def test_no_function_of_the_release_side_takes_a_seed() -> None:
    """All of it but the attack, which draws the weights of one of its tests."""
    names = {module.name for module in iter_modules(curator.__path__)} - {"attack"}
    modules = [import_module(f"noisewise.curator.{name}") for name in sorted(names)]
    for module in (*modules, opendp, import_module("noisewise.mechanism.mechanisms")):
        source = inspect.getsource(module)
        assert "seed" not in source.replace("There is no seed.", "")
        assert "random" not in source.replace("randomness", "")
    assert not {"seed", "rng", "random_state"} & set(
        inspect.signature(noisewise.release).parameters
    )
