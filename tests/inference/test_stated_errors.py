"""What a certificate states of its own error, against the error that was made."""

from typing import Any

import numpy as np
import pytest
from scipy import integrate, special, stats

import noisewise
from noisewise import Bounds, families, noise, priors
from noisewise.inference.grid import one_parameter
from noisewise.inference.grid.adaptive import Grid
from noisewise.inference.grid.coordinates import Axis
from noisewise.inference.grid.masses import Masses
from noisewise.inference.methods import grid_solutions
from noisewise.model.arrays import FloatArray, IntArray

REAL = Axis(-np.inf, np.inf)


@pytest.mark.parametrize("points", [25, 49])
@pytest.mark.parametrize(
    "law", [stats.norm(), stats.logistic(), stats.gumbel_r()], ids=["normal", "logistic", "gumbel"]
)
def test_the_error_of_a_grid_is_about_its_distance_from_the_density(law: Any, points: int) -> None:
    """Total variation between the interpolated density and the one whose points it goes through:
    no more than three times what is stated, and no less than a hundredth.
    """
    psi = np.linspace(law.ppf(1e-8), law.ppf(1 - 1e-8), points)
    grid = Grid(psi, law.logpdf(psi), np.array([0, points]))
    fine = Masses.of(grid, REAL.range)
    stated = grid_solutions._grid_error(grid, fine)
    at = np.linspace(psi[0], psi[-1], 200_001)
    density = np.exp(np.interp(at, fine.psi, fine.log_density))
    made = 0.5 * integrate.trapezoid(np.abs(density - law.pdf(at)), at)
    assert made / 3 < stated < 100 * made


@pytest.mark.parametrize("width", [4.0, 2.0, 1.0, 0.7, 0.5, 0.3])
def test_the_error_of_an_interpolated_difference_covers_it(width: float) -> None:
    """The exact log likelihood differs from the collapsed one by a bend, sharp or soft; weighted by
    the density, the interpolated difference is off by no more than is stated.
    """

    def flat(psi: FloatArray, group: IntArray) -> FloatArray:
        return np.zeros(psi.shape)

    def collapsed(psi: FloatArray, group: IntArray) -> FloatArray:
        return -0.5 * psi**2

    def exact(
        psi: FloatArray,
        group: IntArray,
        slack: FloatArray | None = None,
        /,
        *,
        least: FloatArray | None = None,
    ) -> tuple[FloatArray, FloatArray]:
        bend = 0.5 * np.sqrt(width**2 + (psi - 0.3) ** 2)
        return collapsed(psi, group) + bend, np.zeros(psi.shape)

    found = one_parameter.solve(flat, collapsed, exact, [np.linspace(-40, 40, 49)])
    grid = found.grid
    true = exact(grid.psi, grid.group)[0]
    inside = np.abs(grid.psi) < 4.2  # beyond e^-9 of the peak the difference is held constant
    off = np.abs(grid.value - true) * np.exp(true - true.max())
    assert 1e-7 < off[inside].max() <= found.error[0]
    assert found.error[0] < 1e-3


def test_every_part_of_an_error_is_in_the_certificate(monkeypatch: pytest.MonkeyPatch) -> None:
    """That of the quadrature nodes, and where they could not be checked, that."""
    one = noisewise.observe(
        family=families.Exponential(),
        n=50,
        statistic=20.0,
        noise=noise.Laplace(3.0),
        bounds=Bounds(0, 2, outside="clamp"),
    )
    two = noisewise.observe(
        family=families.Normal(),
        n=50,
        statistic=[3.0, 20.0],
        noise=noise.Laplace(3.0),
        bounds=Bounds(-2, 2, outside="clamp"),
    )
    for release, prior in (
        (one, priors.Gamma(2, 2)),
        (two, priors.NormalInverseGamma(0, 1, 3, 3)),
    ):
        plain = noisewise.infer(release, prior).certificate.numerical_error
        assert plain is not None
        assert plain < 0.01
        with monkeypatch.context() as patch:
            patch.setattr(grid_solutions, "_node_error", lambda problem, psi: 0.25)
            stated = noisewise.infer(release, prior).certificate.numerical_error
        assert stated is not None
        assert 0.25 <= stated < 0.26
        with monkeypatch.context() as patch:
            patch.setattr(grid_solutions.effort, "CHECK", 0.0)
            unchecked = noisewise.infer(release, prior).certificate.numerical_error
        assert unchecked is not None
        assert 0.02 <= unchecked < 0.03


def test_the_error_of_the_nodes_is_that_of_the_shape_alone() -> None:
    """A constant added to every log likelihood changes no posterior; half of the range of the
    others does.
    """

    class Problem:
        def exact(
            self, psi: FloatArray, group: IntArray, slack: Any = None, least_order: int = 0
        ) -> tuple[FloatArray, FloatArray]:
            change = 7.0 + 0.02 * special.expit(psi) if least_order else 0.0
            return -(psi**2) + change, np.zeros(psi.shape)

    assert grid_solutions._node_error(Problem(), np.array([-60.0, 0.0, 60.0])) == pytest.approx(
        0.01
    )  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "ends",
    [
        (0.0, 1.0),
        (1e-6, 1e6),
        (-1e6, -1e-6),
        (-1e6, 1e-6),
        (3.0, np.inf),
        (1e-9, np.inf),
        (-np.inf, 1e-9),
    ],
)
def test_every_point_of_an_axis_is_a_theta_of_its_own(ends: tuple[float, float]) -> None:
    axis = Axis(*ends)
    low, high = axis.range
    psi = np.linspace(low + 1, high - 1, 400)
    theta = axis.theta(psi)
    assert np.all((theta > ends[0]) & (theta < ends[1]))
    assert np.abs(axis.psi(theta) - psi).max() < 0.01
