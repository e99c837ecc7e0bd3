"""The laws of the noise on a released statistic: independent over statistics, symmetric about 0.

A noise is one file: its shape (what solvers ask of it) and its laws on numbers and on a lattice.
"""

from noisewise.mechanism.noise.base import REGISTRY, Noise, Numbers
from noisewise.mechanism.noise.gaussian import DiscreteGaussian, Gaussian
from noisewise.mechanism.noise.laplace import DiscreteLaplace, Laplace
from noisewise.mechanism.noise.shape import Shape

__all__ = [
    "REGISTRY",
    "DiscreteGaussian",
    "DiscreteLaplace",
    "Gaussian",
    "Laplace",
    "Noise",
    "Numbers",
    "Shape",
]
