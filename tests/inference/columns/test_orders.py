"""Columns in an order of each group's own, and where the chains begin."""

import numpy as np
import pytest

import noisewise
from noisewise import Bounds, families, noise, observe, priors
from noisewise.inference.columns.asked import Asked, steady
from noisewise.inference.columns.regression import Regression
from noisewise.inference.columns.target import Data, Target

UNIT = Bounds(-1, 1, outside="redact")
FAMILY = families.Moments({"y": UNIT, "a": UNIT, "sex": ["f", "m"], "b": UNIT, "c": UNIT})
ON = tuple(FAMILY.column(name) for name in ("sex", "a", "b", "c"))
OUTCOME = FAMILY.column("y")
N = 10**5


def release(widths: dict[str, float], rng, size: float = 0.6):
    """Of columns of which each varies so much."""
    n = 4000  # of whose moments N records have the same
    columns = {name: width * rng.uniform(-1, 1, n) for name, width in widths.items()}
    columns["a"] = columns["a"] + 0.2 * columns["c"]
    sex = rng.integers(0, 2, n)
    slopes = {"a": 0.3, "b": 0.2, "c": -0.2}
    y = 0.1 * sex + 0.2 * rng.standard_normal(n) + sum(slopes[x] * columns[x] for x in slopes)
    y = np.clip(y, -1, 1)
    whole = FAMILY.statistic([y, columns["a"], sex, columns["b"], columns["c"]])
    law = noise.Gaussian(size).broadcast(len(whole))
    statistic = np.array([one.mean() for one in whole]) * N + law.simulate(rng, 1)[0]
    return observe(family=FAMILY, n=N, statistic=statistic, noise=law)


VAGUE_A = {"a": 0.01, "b": 0.7, "c": 0.02}
VAGUE_B = {"a": 0.4, "b": 0.01, "c": 0.7}


def test_what_noise_leaves_vague_comes_last(rng) -> None:
    orders = [
        [one.name for one in steady([release(widths, rng)], ON)] for widths in (VAGUE_A, VAGUE_B)
    ]
    assert orders[0][:2] == ["sex", "b"]
    assert orders[1] == ["sex", "c", "a", "b"]


def test_a_groups_statistics_are_in_its_own_order(rng) -> None:
    """Its moments are those of another order, put in order."""
    one = release(VAGUE_B, rng)
    plain = Asked.of(FAMILY, ON, [OUTCOME])
    turned = Asked.of(FAMILY, (ON[0], ON[3], ON[1], ON[2]), [OUTCOME])
    assert turned.names != plain.names
    data = Data.join([plain.data([[one]]), turned.data([[one]])])
    mean, moment = data.moments(np.full((2, 1), float(N)), plain.cone())
    place = [plain.names.index(name) for name in turned.names]
    np.testing.assert_array_equal(mean[1], mean[0][place])
    np.testing.assert_array_equal(moment[1], moment[0][np.ix_(place, place)])


@pytest.mark.parametrize(
    "sd", [1.0, pytest.param({"a": 0.5, "b": 2.0}, marks=pytest.mark.thorough)]
)
def test_groups_of_unlike_orders_have_their_own_coefficients(sd, rng) -> None:
    """Chains are worth 400 draws or more: quartiles, whose error is then at most a twelfth of the
    range between them, differ by 0.6 of it in one pair of 10^6. Tails are heavy where a column may
    not vary at all, and an sd would say little.
    """
    prior = priors.Linear(sd, 1, 0.25)
    releases, on = [release(VAGUE_A, rng), release(VAGUE_B, rng)], ["c", "sex", "b", "a"]
    together = noisewise.regress_many(releases, "y", on, prior=prior, draws=400, seed=1)
    for one, batch in zip(releases, together, strict=True):
        (alone,) = noisewise.regress_many([one], "y", on[::-1], prior=prior, draws=400, seed=2)
        for name in ("intercept", "a", "b", "c", "sex[m]", "sigma"):
            quartiles = [one.quantile(name, [0.25, 0.5, 0.75]) for one in (batch, alone)]
            off = 0.6 * (quartiles[1][2] - quartiles[1][0])
            assert quartiles[0] == pytest.approx(quartiles[1], abs=off)


@pytest.mark.parametrize("n", [10, 10**6])
@pytest.mark.parametrize("size", [1.0, 1e6, 1e160])
@pytest.mark.parametrize("scale", [1e-9, 1.0])
def test_chains_begin_somewhere_whatever_was_released(n, size, scale, rng) -> None:
    """Moments that no records have, with hardly any noise: the density there is a number."""
    family = families.Moments(dict.fromkeys("yabc", UNIT))
    statistic = size * rng.choice([-1.0, 1.0], family.dimension) * rng.random(family.dimension)
    one = observe(family=family, n=n, statistic=statistic, noise=noise.Laplace(scale))
    asked = Asked.of(family, steady([one], family.parts[1:]), [family.parts[0]])
    sds = np.ones(4)
    target = Target(asked.cone(sds[1:]), Regression(sds, 1.0, 0.25), asked.data([[one]]))
    start = target.start()
    point = target.at(start)
    assert np.isfinite(start).all()
    assert np.isfinite(target.model_gradient(start)).all()
    assert (np.abs(point.mean) < 1).all()
    assert ((point.root**2).sum(axis=3) + point.mean**2 <= 1).all()
