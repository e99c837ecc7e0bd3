"""A noise: its law on each statistic, and where all kinds of noise are listed.

`scale` and `step` are in the statistic's units, one number for all statistics or one for each.
Arrays have the statistics on their last axis. `simulate` is for studies of synthetic records; a
release draws in `opendp`.
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, ClassVar, Self, TypeAlias

import numpy as np

from noisewise.mechanism.noise.shape import Shape
from noisewise.model.arrays import FloatArray, positive_tuple

REGISTRY: dict[str, type["Noise"]] = {}
"""kind -> the class of that noise."""
Numbers: TypeAlias = float | Sequence[float]
"""What a person may give: one number or several. The field holds a tuple once the noise is made."""


class Noise(ABC):
    """z = y - s, the difference between the released and the true statistic."""

    kind: ClassVar[str]
    shape: ClassVar[Shape]
    """What solvers ask of it."""
    discrete: ClassVar[bool] = False
    on_numbers: ClassVar[type["Noise"]]
    """The noise of the same shape that is on no lattice."""
    scale: Numbers

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        if "kind" in cls.__dict__:
            REGISTRY[cls.kind] = cls
            if not cls.discrete:
                cls.on_numbers = cls

    @classmethod
    def make(cls, scale: Numbers, step: Numbers = 1.0) -> "Noise":
        """Of this kind; the step is for those on a lattice."""
        return cls(scale, step) if cls.discrete else cls(scale)  # type: ignore[call-arg]

    @property
    def scales(self) -> FloatArray:
        """The scale of each statistic, shape (d,), or (1,) for all."""
        return np.array(self.scale, dtype=np.float64)

    @property
    def steps(self) -> FloatArray:
        """The lattice spacing of each statistic; discrete noise only."""
        return np.array(self.step, dtype=np.float64)  # type: ignore[attr-defined]

    @abstractmethod
    def log_density(self, z: FloatArray) -> FloatArray:
        """Log density of each coordinate; for discrete noise the log probability of the lattice
        point z.
        """

    @abstractmethod
    def cdf(self, z: FloatArray) -> FloatArray:
        """P(noise <= z), for each coordinate."""

    @abstractmethod
    def characteristic(self, omega: FloatArray) -> FloatArray:
        """E cos(omega noise), for each coordinate; the sine part is 0 by symmetry."""

    @abstractmethod
    def simulate(self, rng: np.random.Generator, size: int) -> FloatArray:
        """Seeded draws for studies, shape (size, d)."""

    def broadcast(self, d: int) -> Self:
        """The same noise with one scale (and step) for each of d statistics."""
        grown = {}
        for name in ("scale", "step") if self.discrete else ("scale",):
            values = getattr(self, name)
            if len(values) not in (1, d):
                raise ValueError(
                    f"noise {name} has {len(values)} numbers for {d} statistics; give "
                    "one, or one for each."
                )
            grown[name] = values * d if len(values) == 1 else values
        return replace(self, **grown)  # type: ignore[type-var]


def settle(noise: Noise, scale_is: str) -> None:
    """Check scale and step, and hold them as tuples."""
    object.__setattr__(noise, "scale", positive_tuple("scale", noise.scale, scale_is))
    if noise.discrete:
        step = positive_tuple("step", noise.step, "it is the spacing of the lattice")  # type: ignore[attr-defined]
        object.__setattr__(noise, "step", step)
        if noise.scales.size != noise.steps.size and 1 not in (noise.scales.size, noise.steps.size):
            raise ValueError(
                f"noise has {noise.scales.size} scales and {noise.steps.size} steps; give one, or "
                "one for each statistic."
            )
