"""The laws of the noise, up to their constants, which no posterior feels."""

from dataclasses import dataclass

import numpy as np

from slow.types import Array, Problem


@dataclass(frozen=True)
class Noise:
    """Noise on one statistic; `log_weight` is its log density or probability up to a constant."""

    gaussian: bool
    scale: float
    step: float | None

    @classmethod
    def of(cls, noise: Problem, j: int = 0) -> "Noise":
        step = noise["step"][j] if noise.get("step") else None
        return cls("gaussian" in noise["kind"], noise["scale"][j], step)

    def log_weight(self, z: Array) -> Array:
        return -0.5 * (z / self.scale) ** 2 if self.gaussian else -np.abs(z) / self.scale

    def released(self, total: Array) -> Array:
        """The sum as it stands on the lattice of the noise."""
        return total if self.step is None else self.step * np.floor(total / self.step + 0.5)

    @property
    def variance(self) -> float:
        return self.scale**2 if self.gaussian else 2 * self.scale**2
