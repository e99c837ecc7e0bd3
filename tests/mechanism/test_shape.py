"""The closed forms of a noise's shape against what any shape gets by summing and integrating, and
against formulas of their own.
"""

import numpy as np
import pytest
from scipy import special

from noisewise.mechanism.noise import Shape
from noisewise.mechanism.noise.gaussian import NORMAL
from noisewise.mechanism.noise.laplace import LAPLACE

SHAPES = pytest.mark.parametrize("shape", [LAPLACE, NORMAL], ids=["laplace", "normal"])


@SHAPES
def test_the_constant_on_a_lattice_is_the_sum_of_the_kernel(shape: Shape) -> None:
    scale = np.array([0.2, 0.9, 1.0, 3.0, 40.0])
    summed = Shape.log_constant_on_lattice(shape, scale)
    np.testing.assert_allclose(shape.log_constant_on_lattice(scale), summed, rtol=0, atol=1e-14)


@SHAPES
def test_noise_added_to_a_normal_is_the_integral_of_both(shape: Shape) -> None:
    z, variance, scale = (
        part.ravel() for part in np.meshgrid([0.0, 0.4, -3.0, 9.0], [0.5, 30.0], [1.0, 8.0])
    )
    integrated = Shape.log_with_normal(shape, z, variance, scale)
    np.testing.assert_allclose(
        shape.log_with_normal(z, variance, scale), integrated, rtol=1e-8, atol=1e-8
    )


@pytest.mark.parametrize("b", [0.7, 3.0])
def test_the_normal_laplace_density_keeps_its_digits_everywhere(b: float) -> None:
    """Against the same density by log Phi, which is exact where v is of the size of b^2; from the
    middle to where the noise's tail is all there is.
    """
    z = np.linspace(-60, 60, 481)
    for v in (0.3, 1.0, 4.0):
        root = np.sqrt(v)
        tails = [
            side * z / b + special.log_ndtr((-side * z - v / b) / root) for side in (-1.0, 1.0)
        ]
        wanted = v / (2 * b * b) - np.log(2 * b) + np.logaddexp(*tails)
        found = LAPLACE.log_with_normal(z, np.array(v), np.array(b))
        np.testing.assert_allclose(found, wanted, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("block", [2, 3, 10])
def test_noise_too_wide_to_see_a_lattice_takes_its_rounding_for_noise(block: int) -> None:
    """Of a whole number s that is as likely to be any in a block: y - s has the mean and variance
    of the rounding and the noise together.
    """
    whole = np.arange(-block, 2 * block)
    inside = whole[np.floor(whole / block + 0.5) == 0]
    y, scale = NORMAL.smoothed(np.array([7.0 * block]), np.array([5.0 * block]), block)
    assert inside.size == block
    assert y[0] == pytest.approx(7.0 * block + inside.mean())
    assert scale[0] ** 2 == pytest.approx(25.0 * block**2 + inside.var())
