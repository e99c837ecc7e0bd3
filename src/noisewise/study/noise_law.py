"""The noise that the curator would add, as a law to draw from with a seed."""

from dataclasses import dataclass
from typing import final

import numpy as np

from noisewise.mechanism.lattice import Lattice
from noisewise.mechanism.mechanisms import MECHANISMS
from noisewise.mechanism.noise import Noise
from noisewise.mechanism.privacy import Relation


@final
@dataclass(frozen=True, slots=True)
class NoiseLaw:
    """Of each statistic, and of the number of records where that is released with noise."""

    noise: Noise
    count: Noise | None


def noise_law(
    lattice: Lattice, neighbours: Relation, records_per_person: int, normal: bool, amount: float
) -> NoiseLaw:
    """For a cost of `amount`, a rho where the noise is normal, else an epsilon. The scale is that
    of the formula; OpenDP's certified one differs in its last digits.
    """
    mechanism = MECHANISMS["rho" if normal else "epsilon"]
    weight, power = mechanism.reach(lattice, neighbours)
    power = mechanism.of_person(power, records_per_person)
    scale = (power / (mechanism.order * amount)) ** (1 / mechanism.order)
    step = np.array(lattice.step)
    count = mechanism.law(scale / weight, 1 / weight) if weight else None
    return NoiseLaw(mechanism.law(tuple(scale * step), tuple(step)), count)
