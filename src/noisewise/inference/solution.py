"""What a method leaves of a posterior: one group's solution, and what many groups share."""

from abc import ABC, abstractmethod
from collections.abc import Sequence

import numpy as np

from noisewise.inference.certificate import Certificate
from noisewise.inference.grid.marginal import QUANTILES, Marginal
from noisewise.inference.quantities import DRAWS, FromDraws, Quantity, of_draws
from noisewise.model.arrays import FloatArray
from noisewise.model.derived import Derived
from noisewise.model.family import Parameter


class Batch(ABC):
    """The solutions of many groups that were found together."""

    @abstractmethod
    def marginals(self) -> tuple[Marginal, ...]:
        """Of each parameter, for all groups at once."""

    def marginal_of(self, which: Derived) -> Marginal | None:
        """Of a derived quantity, for all groups at once; None where there is none."""
        return None


class Solution(ABC):
    """One group's posterior as some method left it. Arrays are (size,) for a parameter of that
    size.
    """

    def found_with(self) -> "tuple[Batch, int] | None":
        """Those it was found with, and its place among them; None if it stands alone."""
        return None

    @property
    def settled(self) -> bool:
        """Whether the method came to an end that is worth more than a cruder method's."""
        return True

    @abstractmethod
    def moments(self, parameter: int) -> tuple[FloatArray, FloatArray]:
        """Mean and sd, (size,) each; infinite where they do not exist."""

    @abstractmethod
    def quantile(self, parameter: int, q: FloatArray) -> FloatArray:
        """(len(q), size)."""

    def summary(self, parameter: int) -> FloatArray:
        """Mean, sd and the quantiles of a summary, (size, 5)."""
        quantiles = self.quantile(parameter, np.array(QUANTILES))
        return np.column_stack([*self.moments(parameter), quantiles.T])

    @abstractmethod
    def cdf(self, parameter: int, x: FloatArray) -> FloatArray:
        """The probability of lying at or below x, (..., size) as x."""

    def derived(self, which: Derived, parameters: Sequence[Parameter]) -> Quantity:
        """A quantity that is a function of the parameters."""
        draws = self.draw(np.random.default_rng(0), DRAWS)
        return FromDraws(of_draws(which, parameters, draws))

    @abstractmethod
    def draw(self, rng: np.random.Generator, size: int) -> list[FloatArray]:
        """For each parameter (size,) or (size, k) draws, joint over parameters."""

    def chains(self, rng: np.random.Generator, size: int) -> list[FloatArray] | None:
        """Up to `size` draws of each parameter as its chains have them, (chains, steps) or
        (chains, steps, k), at even distances; None where draws are independent.
        """
        return None

    @abstractmethod
    def certificate(self) -> Certificate:
        """How far to trust it."""

    def curve(self, parameter: int) -> tuple[FloatArray, FloatArray] | None:
        """theta and the density there, for a parameter of one number; None where there are only
        draws.
        """
        return None
