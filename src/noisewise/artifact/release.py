"""The release: the one thing that crosses from the curator to the analyst."""

import math
import os
from collections.abc import Sequence
from dataclasses import dataclass
from numbers import Integral, Real
from pathlib import Path

import numpy as np

from noisewise.artifact.privacy import Privacy
from noisewise.files import write_once
from noisewise.mechanism.lattice import Coordinates
from noisewise.mechanism.noise import Noise
from noisewise.model.bounds import Bounds
from noisewise.model.families import Family


@dataclass(frozen=True, slots=True)
class NoisyCount:
    """How many records there are, plus noise, where their number is not public."""

    value: float
    noise: Noise

    def __post_init__(self) -> None:
        if (
            isinstance(self.value, bool)
            or not isinstance(self.value, Real)
            or not math.isfinite(self.value)
        ):
            raise ValueError("the noisy count must be a finite number.")
        if not isinstance(self.noise, Noise):
            raise ValueError("the noise of a count must be a noise, such as noise.Laplace(2).")
        object.__setattr__(self, "value", float(self.value))
        object.__setattr__(self, "noise", self.noise.broadcast(1))


@dataclass(frozen=True, slots=True)
class Release:
    """A noisy statistic and everything public that is needed to interpret it.

    statistic = (sum of t^(x) over n records) + noise, in plain coordinates (the family's t) or
    standardised ones (u = (x - centre)/radius of the bounds). Where n is not public it is None, and
    count is its noisy value; a categorical's noisy counts need none. Of several columns, whose
    records need not all count, n is the public number of records and count the noisy number of
    those that count; both may stand, and n alone says that all of them count.
    """

    family: Family
    n: int | None
    statistic: tuple[float, ...]
    noise: Noise
    bounds: Bounds | None = None
    coordinates: Coordinates = "plain"
    dataset: str | None = None
    column: str | None = None
    description: str | None = None
    privacy: Privacy | None = None
    notes: tuple[str, ...] = ()
    count: NoisyCount | None = None
    group: tuple[str, str] | None = None
    """The column by which the records were grouped, and this group's name."""

    def __post_init__(self) -> None:
        if not isinstance(self.family, Family):
            raise ValueError("family must be a family, such as families.Exponential().")
        if self.n is None:
            if (self.count is None) != (self.family.statistic_kind == "counts"):
                raise ValueError(
                    "where n is not public, give count, the noisy number of records (none for "
                    "families of counts)."
                )
        elif self.count is not None and self.family.statistic_kind != "moments":
            raise ValueError("n is public or it is not; give n or count, not both.")
        elif (
            isinstance(self.n, bool) or not isinstance(self.n, Integral) or not 0 <= self.n < 2**63
        ):
            raise ValueError(
                f"n must be a whole number from 0, got {self.n}; it is the public number of "
                "records."
            )
        if self.n is not None:
            object.__setattr__(self, "n", int(self.n))  # it may be one of NumPy's
        d = self.family.dimension
        values = tuple(float(value) for value in self.statistic)
        if len(values) != d:
            raise ValueError(
                f"statistic has {len(values)} numbers, the {self.family.kind} family has {d}; give "
                "one for each."
            )
        if not all(math.isfinite(value) for value in values):
            raise ValueError("statistic must be finite numbers.")
        object.__setattr__(self, "statistic", values)
        object.__setattr__(self, "noise", self.noise.broadcast(d))
        self.family.check_bounds(self.bounds)
        if self.coordinates not in ("plain", "standardised"):
            raise ValueError(
                f"coordinates must be 'plain' or 'standardised', got {self.coordinates!r}."
            )
        if self.coordinates == "standardised" and not self.family.polynomial:
            raise ValueError(
                f"the {self.family.kind} family is released in plain coordinates; standardised "
                "does not apply."
            )

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the release as JSON, whole or not at all. A file that holds something else is never
        overwritten.
        """
        write_once(Path(path), self.to_json().encode())

    def to_json(self, indent: int | None = 2) -> str:
        """The release as JSON text that a person can read; indent=None gives one line, for files of
        many.
        """
        from noisewise.artifact import wire  # which is made of releases

        return wire.to_json(self, indent)


def observe(
    *,
    family: Family,
    n: int | None = None,
    count: NoisyCount | None = None,
    statistic: Sequence[float] | float,
    noise: Noise,
    bounds: Bounds | None = None,
    coordinates: Coordinates = "plain",
    dataset: str | None = None,
) -> Release:
    """A release made of a noisy statistic that some other tool published; its privacy cost is not
    known here.

    n is the public number of records; where it is not public, count=NoisyCount(value, noise) stands
    in its place.
    """
    values = tuple(statistic) if isinstance(statistic, (Sequence, np.ndarray)) else (statistic,)
    if bounds is None and isinstance(family, Family):
        bounds = family.own_bounds
    return Release(family, n, values, noise, bounds, coordinates, dataset, count=count)
