"""What a prior is: frozen hyperparameters with a log density and a sampler.

A hyperparameter is a number where a person writes a prior, and an array of shape (batch,) where a
conjugate update made one posterior per chain or group. theta has shape (batch, p), its columns
ordered as the family's parameters.
"""

from abc import ABC, abstractmethod
from dataclasses import fields
from typing import Any, ClassVar, TypeAlias

import numpy as np
from numpy.typing import NDArray

from noisewise.model.arrays import FloatArray

Hyper: TypeAlias = "float | FloatArray"
"""A setting of a prior: one number or, in a batch, one for each release, (batch,)."""
REGISTRY: dict[str, type["Prior"]] = {}
"""kind -> the class of that prior."""


def require(prior: "Prior", *names: str) -> None:
    """Refuse a person's hyperparameters that are not positive and finite; those of a batch are told
    by `Prior.valid`.
    """
    for name in names:
        value = np.asarray(getattr(prior, name))
        if value.ndim > (name == "concentration") and value.dtype.kind in "iuf" and value.size:
            continue
        if (
            value.dtype.kind not in "iuf"
            or value.size == 0
            or not np.all((value > 0) & np.isfinite(value))
        ):
            raise ValueError(
                f"{name} of the {prior.kind} prior must be positive and finite, got "
                f"{getattr(prior, name)}."
            )


def require_finite(prior: "Prior", name: str) -> None:
    value = np.asarray(getattr(prior, name))
    if value.dtype.kind not in "iuf" or not np.all(np.isfinite(value)):
        raise ValueError(
            f"{name} of the {prior.kind} prior must be finite, got {getattr(prior, name)}."
        )


class Prior(ABC):
    """p(theta; lambda), with `kind` its name on the command line and in JSON."""

    kind: ClassVar[str]
    positive: ClassVar[tuple[str, ...]]
    """The hyperparameters that must be positive."""

    @property
    def hyperparameters(self) -> dict[str, Any]:
        """Their values by name."""
        return {field.name: getattr(self, field.name) for field in fields(self)}  # type: ignore[arg-type]

    @property
    def valid(self) -> NDArray[np.bool_]:
        """Which members of a batch are priors at all, (batch,): a conjugate update of an impossible
        statistic is none.
        """
        valid = np.asarray(True)
        for name in self.positive:
            value = np.asarray(getattr(self, name))
            good = (value > 0) & np.isfinite(value)
            valid = np.asarray(valid & (good.all(axis=-1) if name == "concentration" else good))
        return valid

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        if "kind" in cls.__dict__:  # not so while a class is being unpickled
            REGISTRY[cls.kind] = cls

    @abstractmethod
    def log_density(self, theta: FloatArray) -> FloatArray:
        """log p(theta; lambda), shape (batch,), for theta of shape (batch, p)."""

    @abstractmethod
    def draw(self, rng: np.random.Generator, size: int) -> FloatArray:
        """Independent draws of theta, shape (size, p); hyperparameters of shape (size,) give one
        draw each.
        """
