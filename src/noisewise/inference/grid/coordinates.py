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
        """The psi whose theta is a float of its own: about 0 all are, next to any other end of the
        axis only those that are not too close.
        """
        below, above = np.isinf(self.lower), np.isinf(self.upper)
        if below and above:
            return -1e300, 1e300
        width = 1.0 if below or above else self.upper - self.lower
        low = LOWEST if below else _closest(self.lower, width)
        high = -LOWEST if above else -_closest(self.upper, width)
        return low, high

    def theta(self, psi: FloatArray) -> FloatArray:
        """From psi to theta."""
        if np.isinf(self.lower) and np.isinf(self.upper):
            return psi
        if np.isinf(self.upper):
            return self.lower + np.exp(psi)
        if np.isinf(self.lower):
            return self.upper - np.exp(-psi)
        width = self.upper - self.lower
        from_lower, from_upper = width * special.expit(psi), width * special.expit(-psi)
        return np.asarray(np.where(psi < 0, self.lower + from_lower, self.upper - from_upper))

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
                value = np.log(theta - self.lower) - np.log(self.upper - theta)
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


def _closest(end: float, width: float) -> float:
    """The log of how close to an end of the axis theta is a float of its own, in widths."""
    if end == 0:
        return LOWEST
    with np.errstate(divide="ignore"):
        return float(max(np.log(min(abs(end) / width, 1.0)) - HIGHEST_LOGIT, LOWEST))
