"""What a privacy cost means for one person: how far a suspicion about them can rise.

Somebody suspects with probability p that a person's record says one thing rather than another (with
neighbours add_remove: that it is in the table at all). They know everything else, and see the
release. With pure epsilon their odds grow at most e^epsilon-fold. With rho, of normal noise, the
log of that factor is itself normal at worst, of mean rho and variance 2 rho, if they are right: a
guess between two equally likely things is then right Phi(sqrt(rho/2)) of the time.
"""

import math
from dataclasses import dataclass
from decimal import Decimal
from typing import final

import numpy as np
from scipy import special

from noisewise.mechanism.privacy import Cost, implied_epsilon, text
from noisewise.model.arrays import FloatArray

EVEN = 0.5
"""The suspicion that the sentence starts from."""
SELDOM = 0.05
"""The share of releases that may say more than the upper line of a picture of rho."""
NAMED_DELTA = Decimal("0.000001")
"""Where rho was not derived from an epsilon and a delta, the sentence says what it implies with
this one.
"""


@final
@dataclass(frozen=True, slots=True)
class Meaning:
    """Of one cost, for whom it holds."""

    cost: Cost
    unit: str = "one record"
    """Whom it protects, as a release says it."""
    neighbours: str = "replace_one"
    derived_from: tuple[str, str] | None = None
    """The epsilon and delta that a rho was derived from, if it was."""

    @property
    def sentence(self) -> str:
        """The same words wherever a cost is shown."""
        said = f"{self.cost}, for {self.unit}:"
        if self.cost.currency == "epsilon":
            return (
                f"{said} a suspicion of 50 % {self._about} rises to at most "
                f"{percent(self.most(EVEN))}, or falls to at least {percent(1 - self.most(EVEN))}, "
                "whatever else is known."
            )
        epsilon, delta = self._implied
        return (
            f"{said} the best guess {self._guess}, right half of the time without the release, is "
            f"right about {percent(self.right)} of the time with it. A suspicion of 50 % rises to "
            f"at most {percent(raised(EVEN, epsilon))}, apart from releases that tell more, whose "
            f"chance is about delta = {delta}."
        )

    @property
    def _about(self) -> str:
        if self.neighbours == "add_remove":
            return "that somebody is in the table"
        several = "records" in self.unit
        return f"about what somebody's {'records say' if several else 'record says'}"

    @property
    def _guess(self) -> str:
        added = self.neighbours == "add_remove"
        return "whether somebody is in the table" if added else self._about

    @property
    def _implied(self) -> tuple[float, str]:
        """epsilon, and delta as text."""
        if self.derived_from is not None:
            return float(self.derived_from[0]), text(Decimal(self.derived_from[1]))
        return implied_epsilon(self.cost.amount, NAMED_DELTA), text(NAMED_DELTA)

    @property
    def right(self) -> float:
        """How often the best guess between two equally likely things is right."""
        amount = float(self.cost.amount)
        if self.cost.currency == "epsilon":
            return raised(EVEN, amount)
        return float(special.ndtr(math.sqrt(amount / 2)))

    def most(self, before: float) -> float:
        """The most that a suspicion becomes: of pure epsilon ever, of rho but for delta."""
        pure = self.cost.currency == "epsilon"
        return raised(before, float(self.cost.amount) if pure else self._implied[0])

    def after(self, before: FloatArray) -> tuple[FloatArray, FloatArray]:
        """The least and the most that suspicions become, for a picture: of pure epsilon ever, of
        rho in all but SELDOM of the releases, whichever is true.
        """
        amount = float(self.cost.amount)
        if self.cost.currency == "epsilon":
            reach = amount
        else:
            reach = amount + math.sqrt(2 * amount) * float(special.ndtri(1 - SELDOM))
        odds = special.logit(before)
        return np.asarray(special.expit(odds - reach)), np.asarray(special.expit(odds + reach))


def raised(before: float, epsilon: float) -> float:
    """A suspicion whose odds have grown e^epsilon-fold."""
    return float(special.expit(special.logit(before) + epsilon))


def percent(share: float) -> str:
    """To a person: 62.2 %, 99.995 %, and never 0 or 100 % of what is neither."""
    from_end = min(share, 1 - share)
    if from_end < 1e-9:
        return "next to nothing" if share < EVEN else "all but certainty"
    digits = max(1, math.ceil(-math.log10(from_end)) - 2)
    return f"{100 * share:.{digits}f} %"
