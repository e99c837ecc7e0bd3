"""Priors of several columns, in the standardised coordinates in which every column's bounds are -1
and 1.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar, final

import numpy as np

from noisewise.errors import UnsupportedCombination
from noisewise.model.arrays import FloatArray


def _positive(kind: str, **values: object) -> None:
    for name, value in values.items():
        number = isinstance(value, (int, float, np.number)) and not isinstance(value, bool)
        if not (number and 0 < float(value) < np.inf):  # type: ignore[arg-type]
            raise ValueError(
                f"{name} of the {kind} prior must be positive and finite, got {value}."
            )


@final
@dataclass(frozen=True, slots=True)
class Linear:
    """Of a linear regression: beta_j ~ N(0, sd_j^2), sigma^2 ~ InverseGamma(shape, scale).

    sd is one number for all coefficients, or {name: number} with "intercept" and every coefficient
    by name; what is not named has 1. A coefficient of 1 means: over the whole range of a covariate
    the outcome moves over the whole of its own.
    """

    kind: ClassVar[str] = "linear"
    sd: float | Mapping[str, float] = 1.0
    shape: float = 1.0
    scale: float = 0.25

    def __post_init__(self) -> None:
        _positive(self.kind, shape=self.shape, scale=self.scale)
        if isinstance(self.sd, Mapping):
            for name, value in self.sd.items():
                _positive(self.kind, **{f"sd of {name}": value})
        else:
            _positive(self.kind, sd=self.sd)

    def sds(self, names: Sequence[str]) -> FloatArray:
        """Of the intercept and the coefficients of these names."""
        known = ("intercept", *names)
        if not isinstance(self.sd, Mapping):
            return np.full(len(known), float(self.sd))
        strange = [name for name in self.sd if name not in known]
        if strange:
            raise UnsupportedCombination(
                f"the prior has an sd of {strange[0]!r}, which is no coefficient here; these are: "
                f"{', '.join(known)}."
            )
        return np.array([float(self.sd.get(name, 1.0)) for name in known])


@final
@dataclass(frozen=True, slots=True)
class NormalInverseWishart:
    """Of several numbers together: mu given Sigma ~ N(mean, Sigma/strength), Sigma ~
    InverseWishart(degrees, scale); mean a number or one for each column, scale a number (times the
    identity) or a matrix.
    """

    kind: ClassVar[str] = "normal_inverse_wishart"
    mean: float | Sequence[float]
    strength: float
    degrees: float
    scale: float | Sequence[Sequence[float]]

    def __post_init__(self) -> None:
        _positive(self.kind, strength=self.strength, degrees=self.degrees)
        if not np.all(np.isfinite(np.asarray(self.mean, dtype=float))):
            raise ValueError(f"mean of the {self.kind} prior must be finite, got {self.mean}.")
        matrix = np.asarray(self.scale, dtype=float)
        if matrix.ndim == 0:
            _positive(self.kind, scale=float(matrix))
        elif (
            matrix.ndim != 2
            or matrix.shape[0] != matrix.shape[1]
            or not np.allclose(matrix, matrix.T)
            or not np.all(np.linalg.eigvalsh(matrix) > 0)
        ):
            raise ValueError(
                f"scale of the {self.kind} prior must be a positive number or a symmetric, "
                "positive definite matrix."
            )

    def of(self, q: int) -> tuple[FloatArray, FloatArray]:
        """The mean and the scale matrix for q columns."""
        mean, scale = np.asarray(self.mean, dtype=float), np.asarray(self.scale, dtype=float)
        if mean.ndim > 1 or mean.size not in (1, q) or (scale.ndim == 2 and len(scale) != q):
            raise UnsupportedCombination(
                f"the prior's mean or scale is not for {q} numeric columns; give one number, or "
                "one for each."
            )
        if not self.degrees > q - 1:
            raise UnsupportedCombination(
                f"the prior's degrees must be above {q - 1} for {q} numeric columns, got "
                f"{self.degrees:g}."
            )
        matrix = float(scale) * np.eye(q) if scale.ndim == 0 else scale
        return np.broadcast_to(mean, (q,)).astype(float), matrix


REGISTRY: dict[str, type[Linear] | type[NormalInverseWishart]] = {
    one.kind: one for one in (Linear, NormalInverseWishart)
}
"""kind -> the class of that prior."""
