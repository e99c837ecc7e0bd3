"""A guessed truth as a person says it: {"rate": 0.07}, {"mean": 14} or {"a": 0.2, "b": 0.8}."""

import math
from collections.abc import Mapping
from typing import cast

import numpy as np

from noisewise.errors import UnsupportedCombination
from noisewise.inference.grid.coordinates import Axis
from noisewise.model.arrays import FloatArray
from noisewise.model.derived import Derived
from noisewise.model.family import Family, Parameter

SUM = 1e-6
"""How far from 1 the shares of all categories may add up."""


def theta_of(family: Family, truth: Mapping[str, float]) -> FloatArray:
    """theta, (p,), from the value of every parameter, or of a quantity that tells it: the mean of
    an exponential, the sd of a normal.
    """
    check_numbers(truth)
    if family.parameters[0].size > 1:
        return _shares(family, truth)
    left = dict(truth)
    found: list[float | None] = [left.pop(one.name, None) for one in family.parameters]
    # those of one parameter first: another may need it
    for which in sorted(family.derived, key=lambda one: one.other is not None):
        if which.name in left and found[which.of] is None:
            found[which.of] = _solved(which, family.parameters, found, left.pop(which.name))
    if left or None in found:
        names = quantities(family)
        wrong = (
            f"{next(iter(left))!r} is none of them, or one too many"
            if left
            else f"{family.parameters[found.index(None)].name!r} is missing"
        )
        raise UnsupportedCombination(
            f"truth must tell every parameter of the {family.kind} family once, by "
            f"{', '.join(names)}; {wrong}."
        )
    theta = np.array(cast(list[float], found))
    for one, value in zip(family.parameters, theta, strict=True):
        if not one.lower < value < one.upper:
            raise UnsupportedCombination(
                f"the truth's {one.name} must lie between {one.lower:g} and {one.upper:g}, got "
                f"{value:g}."
            )
    return theta


def quantities(family: Family) -> list[str]:
    """The names of the parameters, and of the quantities that people use beside them."""
    return [one.name for one in family.parameters] + [one.name for one in family.derived]


def _solved(
    which: Derived, parameters: tuple[Parameter, ...], known: list[float | None], value: float
) -> float:
    """The parameter whose quantity has this value."""
    if not which.lower < value < which.upper:
        raise UnsupportedCombination(
            f"the truth's {which.name} must lie between {which.lower:g} and {which.upper:g}, got "
            f"{value:g}."
        )
    link = float(Axis(which.lower, which.upper).psi(np.array(value))) - which.shift
    if which.other is not None:
        second = known[1]
        if second is None:
            raise UnsupportedCombination(
                f"the truth's {which.name} needs {parameters[1].name} beside it."
            )
        link -= float(which.other(np.array(second)))
    return float(Axis.of(parameters[which.of]).theta(np.array(link / which.slope)))


def _shares(family: Family, truth: Mapping[str, float]) -> FloatArray:
    labels = [str(label) for label in family.labels_of(family.parameters[0].name)]
    if set(truth) != set(labels):
        strange = [name for name in truth if name not in labels]
        missing = [label for label in labels if label not in truth]
        wrong = f"{strange[0]!r} is none" if strange else f"{missing[0]!r} is missing"
        raise UnsupportedCombination(
            f"truth must have the share of every category, such as {labels[0]}=0.2; {wrong}."
        )
    shares = np.array([float(truth[label]) for label in labels])
    if not (np.all(shares > 0) and abs(shares.sum() - 1) < SUM):
        raise UnsupportedCombination(
            f"the shares of all categories must be positive and add up to 1, not to "
            f"{shares.sum():.6g}."
        )
    return np.asarray(shares / shares.sum())


def check_numbers(truth: Mapping[str, float]) -> None:
    """Refuse what is no number by name."""
    if not isinstance(truth, Mapping):
        raise UnsupportedCombination("truth must be named numbers, such as {'rate': 0.07}.")
    for name, value in truth.items():
        number = isinstance(value, (int, float, np.number)) and not isinstance(value, bool)
        if not number or not math.isfinite(value):
            raise UnsupportedCombination(f"the truth's {name} must be a finite number.")
