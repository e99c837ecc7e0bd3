"""Lifetimes whose hazard rises or falls: x^shape is exponential, with the shape known."""

import math
from dataclasses import dataclass
from typing import Any, ClassVar, final

import numpy as np

from noisewise.model.arrays import FloatArray, Namespace
from noisewise.model.derived import Derived
from noisewise.model.families.exponential import Exponential
from noisewise.model.family import Parameter
from noisewise.model.priors import Gamma
from noisewise.model.transformed import Transformed


@final
@dataclass(frozen=True, slots=True)
class Weibull(Transformed):
    """P(X > x) = e^(-rate x^shape): t(x) = x^shape, and the rate is that of x^shape. SciPy's
    weibull_min has the scale rate^(-1/shape).
    """

    kind: ClassVar[str] = "weibull"
    parameters: ClassVar = (Parameter("rate", 0, np.inf),)
    support: ClassVar = (0.0, np.inf)
    prior: ClassVar = Gamma
    base: ClassVar = Exponential()
    shape: float

    def __post_init__(self) -> None:
        if not 0 < self.shape < np.inf:
            raise ValueError(
                f"shape of the weibull family must be positive and finite, got {self.shape}; with "
                "shape 1 it is the exponential."
            )
        object.__setattr__(self, "shape", float(self.shape))

    @property
    def derived(self) -> tuple[Derived, ...]:
        return (Derived("mean", slope=-1 / self.shape, shift=math.lgamma(1 + 1 / self.shape)),)

    def transform(self, x: Any, xp: Namespace = np) -> Any:
        positive = x > 0
        power = xp.exp(self.shape * xp.log(xp.where(positive, x, 1.0)))
        return xp.where(positive, power, 0.0)

    def invert(self, z: FloatArray) -> FloatArray:
        return np.asarray(z ** (1 / self.shape))

    def log_slope(self, x: FloatArray) -> FloatArray:
        # at 0, where the density may have no value, that of the smallest number
        return np.asarray(
            np.log(self.shape) + (self.shape - 1) * np.log(np.maximum(x, np.finfo(float).tiny))
        )
