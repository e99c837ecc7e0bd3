"""Amounts that vary by factors: log x is normal, with mean and variance unknown."""

from dataclasses import dataclass
from typing import Any, ClassVar, final

import numpy as np

from noisewise.errors import UnsupportedCombination
from noisewise.model import priors
from noisewise.model.arrays import FloatArray, Namespace
from noisewise.model.bounds import Bounds
from noisewise.model.derived import Derived
from noisewise.model.families.normal import NormalBoth
from noisewise.model.family import Parameter
from noisewise.model.transformed import Transformed


@final
@dataclass(frozen=True, slots=True)
class LogNormal(Transformed):
    """log x ~ Normal(log_mean, log_variance). Released like a normal column of log x: (u, u^2) of
    u = (log x - centre)/radius, in which the bounds are -1 and 1.
    """

    kind: ClassVar[str] = "log_normal"
    parameters: ClassVar = (
        Parameter("log_mean", -np.inf, np.inf),
        Parameter("log_variance", 0, np.inf),
    )
    support: ClassVar = (0.0, np.inf)
    polynomial: ClassVar = True
    prior: ClassVar = priors.NormalInverseGamma
    base: ClassVar = NormalBoth()

    @property
    def derived(self) -> tuple[Derived, ...]:
        return (
            Derived("log_sd", of=1, slope=0.5),
            Derived("median"),
            Derived("mean", other=_half),
        )

    def transform(self, x: Any, xp: Namespace = np) -> Any:
        return xp.log(x)

    def invert(self, z: FloatArray) -> FloatArray:
        with np.errstate(over="ignore"):
            return np.exp(z)

    def log_slope(self, x: FloatArray) -> FloatArray:
        return -np.log(x)

    def image(self, x: float) -> float:
        return -np.inf if x <= 0 else float(np.log(x))

    def check_bounds(self, bounds: Bounds | None) -> None:
        super(LogNormal, self).check_bounds(bounds)
        if bounds is not None and bounds.lower <= 0:
            raise UnsupportedCombination(
                "the log_normal family takes logarithms, which are not finite at 0; the lower "
                f"bound must be above 0, such as {bounds.upper / 1000:g}, got {bounds.lower:g}."
            )


def _half(log_variance: FloatArray) -> FloatArray:
    """The mean is e^(log_mean + log_variance / 2)."""
    return log_variance / 2
