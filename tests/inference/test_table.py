"""Questions to a table's posterior, held against the Dirichlet where the noise vanishes."""

import numpy as np
import pytest

import noisewise
from noisewise import families, noise, observe
from noisewise.errors import NoisewiseError
from noisewise.inference.table import TablePosterior

TABLE = families.Table({"sex": ["f", "m"], "ward": ["a", "b", "c"], "old": ["no", "yes"]})
COUNTS = np.array([40, 10, 22, 8, 55, 5, 20, 30, 60, 2, 33, 15])


@pytest.fixture(scope="module")
def posterior() -> TablePosterior:
    release = observe(family=TABLE, statistic=COUNTS, noise=noise.Laplace(0.02))
    found = noisewise.infer(release, "weak", seed=1, draws=20_000)
    assert isinstance(found, TablePosterior)
    return found


def beta(hits: float, total: float) -> tuple[float, float]:
    """Mean and sd of a share, the weak prior's records included."""
    mean = hits / total
    return mean, np.sqrt(mean * (1 - mean) / (total + 1))


def test_shares_are_those_of_a_dirichlet(posterior) -> None:
    counts = (COUNTS + 3 / 12).reshape(2, 3, 2)
    for value, hits, total in (
        (posterior.share(sex="f"), counts[0].sum(), counts.sum()),
        (posterior.share(sex="f", old="yes"), counts[0, :, 1].sum(), counts.sum()),
        (
            posterior.share(old="yes", given={"ward": "b"}),
            counts[:, 1, 1].sum(),
            counts[:, 1].sum(),
        ),
    ):
        mean, sd = beta(hits, total)
        assert value.mean == pytest.approx(mean, abs=5 * sd / np.sqrt(20_000))
        assert value.sd == pytest.approx(sd, rel=0.03)
    wards = posterior.share("ward", given={"sex": "m"})
    assert wards.labels == ("a", "b", "c")
    assert wards.mean == pytest.approx(counts[1].sum(axis=1) / counts[1].sum(), abs=0.002)
    assert wards.draws.sum(axis=1) == pytest.approx(1)


def test_odds_ratios_and_association_are_those_of_the_cells(posterior) -> None:
    cells = posterior.draws["probabilities"].reshape(-1, 2, 3, 2).sum(axis=2)
    expected = cells[:, 1, 1] * cells[:, 0, 0] / cells[:, 1, 0] / cells[:, 0, 1]
    assert posterior.odds_ratio("sex", "old").draws == pytest.approx(expected)
    assert posterior.odds_ratio("old", "sex").draws == pytest.approx(expected)
    by_ward = posterior.odds_ratio("sex", "ward", given={"old": "no"})
    assert by_ward.labels == ("sex=m, ward=b", "sex=m, ward=c")
    # of a two by two table V is the correlation of the indicators
    p, q = cells[:, 1].sum(axis=1), cells[:, :, 1].sum(axis=1)
    correlation = (cells[:, 1, 1] - p * q) / np.sqrt(p * (1 - p) * q * (1 - q))
    assert posterior.association("sex", "old").draws == pytest.approx(np.abs(correlation))


def test_a_value_tells_of_itself(posterior) -> None:
    value = posterior.share(sex="f")
    low, high = value.interval(0.9)
    assert low < value.mean < high
    assert value.probability(above=low) == pytest.approx(0.95, abs=0.001)
    assert "90 % in" in repr(value)


def test_questions_that_have_no_answer_say_what_to_ask(posterior) -> None:
    for ask, said in (
        (lambda: posterior.share(), "name a level"),
        (lambda: posterior.share(sex="x"), "its levels: 'f', 'm'"),
        (lambda: posterior.share(height=1), "it has: sex, ward, old"),
        (lambda: posterior.share(sex="f", given={"sex": "m"}), "leave one out"),
        (lambda: posterior.odds_ratio("sex", "sex"), "two columns"),
        (lambda: posterior.association("sex", "old", given={"old": "no"}), "leave one out"),
    ):
        with pytest.raises(NoisewiseError, match=said):
            ask()
