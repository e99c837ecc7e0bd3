"""Coordinates of moments: possible ones everywhere, with the right volume and slope."""

import numpy as np
import pytest

from noisewise.inference.columns.cone import Cone

COLUMNS = [
    [(1, False, False)],
    [(1, True, False), (1, False, False), (1, False, True)],
    [(3, True, False), (2, True, False), (1, True, False), (1, False, False), (1, False, True)],
    [(1, False, True)] * 3,
    [(1, True, False), *[(1, False, False)] * 3, (1, False, True)],
]


def cones(columns):
    """Without and with widths of the last row's coefficients."""
    numbers = sum(size for size, _, _ in columns)
    return [Cone.of(columns), Cone.of(columns, np.linspace(0.5, 2, numbers - 1))]


def few(x):
    return np.full(len(x), 0.01)


def lean(cone, batch, slope=0.3):
    """Every covariate leans on all before it."""
    out = np.eye(cone.numbers)
    for block in cone.blocks:
        if not block.factor and not block.response:
            out[block.start, : block.start] = slope
    return np.repeat(out[None], batch, axis=0)


@pytest.mark.parametrize("cone", [one for columns in COLUMNS for one in cones(columns)])
def test_the_gradient_is_that_of_differences(cone, rng) -> None:
    k = cone.numbers
    a, b = rng.normal(size=k), rng.normal(size=(k, k))

    def value(x):
        found = cone.at(x, few(x), lean(cone, len(x)))
        c = found.root @ found.root.swapaxes(1, 2)
        return found.value + found.mean @ a + (c * b).sum(axis=(1, 2))

    x = rng.normal(size=(9, cone.dimension))
    x = x[np.isfinite(value(x))]
    assert len(x) > 1
    found = cone.at(x, few(x), lean(cone, len(x)))
    to_root = np.tril((b + b.T) @ found.root)
    gradient = cone.back(found, np.broadcast_to(a, found.mean.shape), to_root)
    for j, step in enumerate(1e-6 * np.eye(cone.dimension)):
        slope = (value(x + step) - value(x - step)) / 2e-6
        assert gradient[:, j] == pytest.approx(slope, abs=1e-6, rel=1e-6)


@pytest.mark.parametrize("cone", [one for columns in COLUMNS for one in cones(columns)])
def test_columns_of_which_none_leans_are_upright_ones(cone, rng) -> None:
    x = rng.normal(size=(9, cone.dimension))
    found, same = (cone.at(x, few(x), how) for how in (None, lean(cone, len(x), 0.0)))
    assert found.value == pytest.approx(same.value, abs=1e-12)
    assert np.array_equal(found.root, same.root)
    to_mean, to_root = rng.normal(size=found.mean.shape), np.tril(rng.normal(size=found.root.shape))
    back, again = (cone.back(one, to_mean, to_root) for one in (found, same))
    assert back == pytest.approx(again, abs=1e-11)


@pytest.mark.parametrize("cone", [one for columns in COLUMNS for one in cones(columns)])
def test_moments_are_possible_and_coordinates_are_found_again(cone, rng) -> None:
    x = 2 * rng.normal(size=(50, cone.dimension))
    found = cone.at(x, few(x), lean(cone, len(x)))
    inside = np.isfinite(found.value)
    assert inside.mean() > 0.2
    c = found.root @ found.root.swapaxes(1, 2)
    assert np.all(np.linalg.eigvalsh(c) > -1e-12)  # of numbers up to 1: rounding
    for block in cone.blocks:
        rows = slice(block.start, block.start + block.size)
        m = found.mean[:, rows]
        if block.factor:
            own = m[:, :, None] * np.eye(block.size) - m[:, :, None] * m[:, None, :]
            assert c[:, rows, rows] == pytest.approx(own, abs=1e-12)
        else:
            assert np.all((m[:, 0] ** 2 + c[:, block.start, block.start])[inside] < 1)
    near = 0.5 * x[:5]
    leaning = lean(cone, len(near))
    moments = cone.at(near, few(near), leaning)
    covariance = moments.root @ moments.root.swapaxes(1, 2)
    again = cone.coordinates(moments.mean, covariance, few(near), leaning)
    assert again == pytest.approx(near, abs=1e-6)


@pytest.mark.parametrize("cone", cones(COLUMNS[-1]))
def test_moments_are_as_likely_however_they_lean(cone, rng) -> None:
    x = 0.3 * rng.normal(size=(1, cone.dimension))
    free = np.array([0, *range(1, 5), *range(6, 20)])  # a factor's variance is known from its mean
    low = np.tril_indices(cone.numbers)

    def log_density(x, leaning):
        def moments(at):
            found = cone.at(at[None], few(at[None]), leaning)
            c = found.root[0] @ found.root[0].T
            return np.concatenate([found.mean[0], c[low]])[free]

        steps = 1e-6 * np.eye(cone.dimension)
        jacobian = [(moments(x[0] + h) - moments(x[0] - h)) / 2e-6 for h in steps]
        volume = np.linalg.slogdet(np.array(jacobian))[1]
        return cone.at(x, few(x), leaning).value[0] - volume

    leaning, upright = lean(cone, 1), lean(cone, 1, 0.0)
    found = cone.at(x, few(x), leaning)
    same = cone.coordinates(found.mean, found.root @ found.root.swapaxes(1, 2), few(x), upright)
    assert np.abs(same - x).max() > 0.1
    assert log_density(x, leaning) == pytest.approx(log_density(same, upright), abs=1e-5)


@pytest.mark.parametrize("cone", cones([(1, False, True)] * 3))
def test_the_volume_of_responses_is_that_of_mean_and_covariance(cone, rng) -> None:
    x = rng.normal(size=cone.dimension)
    low = np.tril_indices(3)

    def moments(at):
        found = cone.at(at[None], few(at[None]), lean(cone, 1))
        c = found.root[0] @ found.root[0].T
        return np.concatenate([found.mean[0], c[low]])

    steps = 1e-6 * np.eye(cone.dimension)
    jacobian = np.stack([(moments(x + h) - moments(x - h)) / 2e-6 for h in steps], axis=1)
    volume = cone.at(x[None], few(x[None]), lean(cone, 1)).value[0]
    # the normal densities of a and t lack their constant
    volume += -3 * np.log(2 * np.pi) + 6 * np.log(2)
    assert volume == pytest.approx(np.linalg.slogdet(jacobian)[1], abs=1e-6)


def test_the_volume_of_a_factor_beside_others(rng) -> None:
    """Its coordinates B, whose sinh are free, to W = T^-1 sinh(B): uniform correlations."""
    cone = Cone.of([(2, True, False), (2, True, False)])
    x = rng.normal(size=cone.dimension)
    free = slice(4, 8)  # the second factor's B

    def contraction(at):
        b = np.sinh(at).reshape(2, 2)
        return np.linalg.solve(np.linalg.cholesky(np.eye(2) + b @ b.T), b).ravel()

    steps = 1e-6 * np.eye(4)
    jacobian = [(contraction(x[free] + h) - contraction(x[free] - h)) / 2e-6 for h in steps]

    def of_shares(at):
        whole = np.concatenate([[0.0], at])
        return (whole - np.logaddexp.reduce(whole)).sum()

    shares = of_shares(x[:2]) + of_shares(x[2:4])
    found = cone.at(x[None], few(x[None]), lean(cone, 1)).value[0] - shares
    assert found == pytest.approx(np.linalg.slogdet(np.array(jacobian))[1], abs=1e-6)
