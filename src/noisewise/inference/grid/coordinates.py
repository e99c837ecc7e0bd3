"""The unconstrained coordinate of a parameter: log for a positive one, logit for a probability,
itself for a real one.
"""

from dataclasses import dataclass

import numpy as np
from scipy import special

from noisewise.model.arrays import FloatArray
from noisewise.model.family import Parameter

LOWEST, HIGHEST_LOGIT = -690.0, 30.0
"""e^-690 is a float still; 1 - expit(30) has three digits left."""


@dataclass(frozen=True, slots=True)
class Axis:
    """theta in (lower, upper) as a function of psi on the real line."""

    lower: float
    upper: float

    @property
    def falls(self) -> bool:
        """Whether theta falls as psi grows."""
        return False

    @classmethod
    def of(cls, parameter: Parameter) -> "Axis":
        """The axis of a parameter."""
        return cls(parameter.lower, parameter.upper)

    def within(self, lower: float, upper: float) -> "Axis":
        """The axis of that part of it."""
        return Axis(max(self.lower, lower), min(self.upper, upper))

    @property
    def range(self) -> tuple[float, float]:
        """The psi whose theta is a float of its own."""
        if np.isinf(self.lower) and np.isinf(self.upper):
            return -1e300, 1e300
        if np.isinf(self.upper) or np.isinf(self.lower):
            return (
                (LOWEST, -LOWEST)
                if max(self.lower, -self.upper) == 0
                else (-HIGHEST_LOGIT, -LOWEST)
            )
        return (LOWEST if self.lower == 0 else -HIGHEST_LOGIT), HIGHEST_LOGIT

    def theta(self, psi: FloatArray) -> FloatArray:
        """From psi to theta."""
        if np.isinf(self.lower) and np.isinf(self.upper):
            return psi
        if np.isinf(self.upper):
            return self.lower + np.exp(psi)
        if np.isinf(self.lower):
            return self.upper - np.exp(-psi)
        return np.asarray(self.lower + (self.upper - self.lower) * special.expit(psi))

    def psi(self, theta: FloatArray) -> FloatArray:
        """From theta to psi, within `range`."""
        with np.errstate(divide="ignore"):
            if np.isinf(self.lower) and np.isinf(self.upper):
                value = theta
            elif np.isinf(self.upper):
                value = np.log(theta - self.lower)
            elif np.isinf(self.lower):
                value = -np.log(self.upper - theta)
            else:
                value = special.logit((theta - self.lower) / (self.upper - self.lower))
        return np.asarray(np.clip(value, *self.range))

    def log_jacobian(self, psi: FloatArray) -> FloatArray:
        """log |d theta / d psi|."""
        if np.isinf(self.lower) and np.isinf(self.upper):
            return np.zeros(np.shape(psi))
        if np.isinf(self.upper):
            return psi
        if np.isinf(self.lower):
            return -psi
        return np.asarray(
            np.log(self.upper - self.lower) + special.log_expit(psi) + special.log_expit(-psi)
        )
