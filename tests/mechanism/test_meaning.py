"""What a cost means for one person: the sentence's numbers, from first principles."""

import math
from decimal import Decimal

import numpy as np
import pytest
from scipy import integrate, stats

from noisewise.mechanism.meaning import Meaning, percent, raised
from noisewise.mechanism.privacy import concentrated, implied_epsilon, pure


@pytest.mark.parametrize(
    ("epsilon", "said"), [("0.1", "52.5 %"), ("0.5", "62.2 %"), ("1", "73.1 %")]
)
def test_a_suspicion_of_one_half_under_pure_epsilon(epsilon: str, said: str) -> None:
    meaning = Meaning(pure(epsilon))
    e = float(epsilon)
    assert meaning.most(0.5) == pytest.approx(math.exp(e) / (1 + math.exp(e)))
    assert f"rises to at most {said}" in meaning.sentence
    assert f"epsilon = {epsilon}, for one record:" in meaning.sentence


def test_laplace_noise_reaches_the_bound_and_no_more() -> None:
    """The posterior of one of two values of a record, by Bayes' rule, over all outputs."""
    epsilon, before = 0.7, 0.2
    y = np.linspace(-20, 20, 4001)
    one, other = (stats.laplace.pdf(y, at, 1 / epsilon) for at in (1.0, 0.0))
    after = before * one / (before * one + (1 - before) * other)
    low, high = Meaning(pure(epsilon)).after(np.array([before]))
    assert after.max() == pytest.approx(high[0])
    assert after.min() == pytest.approx(low[0])
    assert raised(before, epsilon) == pytest.approx(high[0])


@pytest.mark.parametrize("rho", ["0.02", "0.5", "2"])
def test_the_best_guess_under_normal_noise(rho: str) -> None:
    """How often the likelier of two values is the true one: noise of sd 1, values sqrt(2 rho)
    apart.
    """
    apart = math.sqrt(2 * float(rho))
    right, _ = integrate.quad(
        lambda y: 0.5 * max(stats.norm.pdf(y), stats.norm.pdf(y, apart)), -12, 12 + apart
    )
    meaning = Meaning(concentrated(rho))
    assert meaning.right == pytest.approx(right, abs=1e-7)
    assert f"right about {percent(right)} of the time" in meaning.sentence
    assert "delta = 0.000001" in meaning.sentence
    epsilon = implied_epsilon(Decimal(rho), Decimal("0.000001"))
    assert percent(raised(0.5, epsilon)) in meaning.sentence


def test_the_picture_of_rho_holds_but_for_one_release_in_twenty() -> None:
    rho, before = 0.3, 0.5
    _, high = Meaning(concentrated(rho)).after(np.array([before]))
    apart = math.sqrt(2 * rho)
    y = stats.norm.ppf((np.arange(100_000) + 0.5) / 100_000, loc=apart)  # where the value is there
    after = 1 / (1 + np.exp(apart**2 / 2 - apart * y))
    assert np.mean(after <= high[0]) == pytest.approx(0.95, abs=1e-3)


def test_delta_and_the_neighbours_are_named() -> None:
    meaning = Meaning(
        concentrated("0.01"), "one person with at most 5 records", "add_remove", ("0.5", "0.00001")
    )
    for words in ("delta = 0.00001.", "whether somebody is in the table", "at most 5 records"):
        assert words in meaning.sentence
    assert percent(math.exp(0.5) / (1 + math.exp(0.5))) in meaning.sentence


@pytest.mark.parametrize(
    ("share", "said"),
    [(0.5, "50.0 %"), (0.99995, "99.995 %"), (1 - 1e-12, "all but certainty")],
)
def test_percentages_are_never_0_or_100_of_what_is_neither(share: float, said: str) -> None:
    assert percent(share) == said
