"""Amounts with a heavy tail above a known minimum: log(x / minimum) is exponential."""

from dataclasses import dataclass
from typing import Any, ClassVar, final

import numpy as np

from noisewise.model.arrays import FloatArray, Namespace
from noisewise.model.families.exponential import Exponential
from noisewise.model.family import Parameter
from noisewise.model.priors import Gamma
from noisewise.model.transformed import Transformed


@final
@dataclass(frozen=True, slots=True)
class Pareto(Transformed):
    """P(X > x) = (minimum / x)^index on x >= minimum: t(x) = log(x / minimum), and the index is the
    rate of that. SciPy's pareto calls it b.
    """

    kind: ClassVar[str] = "pareto"
    parameters: ClassVar = (Parameter("index", 0, np.inf),)
    prior: ClassVar = Gamma
    base: ClassVar = Exponential()
    minimum: float

    def __post_init__(self) -> None:
        if not 0 < self.minimum < np.inf:
            raise ValueError(
                f"minimum of the pareto family must be positive and finite, got {self.minimum}."
            )
        object.__setattr__(self, "minimum", float(self.minimum))

    @property
    def support(self) -> tuple[float, float]:  # type: ignore[override]
        """From the minimum on."""
        return (self.minimum, np.inf)

    def transform(self, x: Any, xp: Namespace = np) -> Any:
        return xp.log(x * (1 / self.minimum)) if self.minimum != 1 else xp.log(x)

    def invert(self, z: FloatArray) -> FloatArray:
        with np.errstate(over="ignore"):
            return np.asarray(self.minimum * np.exp(z))

    def log_slope(self, x: FloatArray) -> FloatArray:
        return -np.log(x)

    def image(self, x: float) -> float:
        return float(np.log(max(x / self.minimum, 1.0)))
