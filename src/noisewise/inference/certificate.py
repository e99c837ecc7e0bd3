"""How far a posterior can be trusted, in numbers and in words."""

import math
from dataclasses import asdict, dataclass
from typing import Any

UNLIKELY = 1e-3
"""Among releases that a right model makes, one in a thousand is called surprising."""
BAD_RHAT = 1.05
"""Chains that agree less have not mixed; 1.01 is the usual advice, and warns of too many short
runs.
"""
LONG_TIME = 100.0
"""Steps between independent draws of a chain, beyond which 5000 steps tell little."""
LEANS = 0.05
"""Where the posterior expects more of the records beyond a bound, the family's shape there matters.
"""
HARDLY = 0.001
"""A smaller share of the records is not worth a word."""
MOVES = 1.0
"""Where a parameter would move by more of its sds without them, it matters too, however few they
are: of 90 % intervals that are off by one sd 74 % hold the truth.
"""
INEXACT = 0.01
"""A numerical error, total variation, that is worth a warning;"""
MOVED_BY_POOLING = 0.1
"""and of groups together, where it is how far a mean may be off, in its sds."""


@dataclass(frozen=True, slots=True)
class Moved:
    """What a posterior would say if nobody lay beyond the bounds, of the parameter that differs
    most.
    """

    name: str
    median: float
    without: float
    """The median then."""
    sds: float

    @property
    def matters(self) -> bool:
        """Whether that is another answer."""
        return self.sds > MOVES


@dataclass(frozen=True, slots=True)
class Beyond:
    """The shares of records that a posterior expects below the lower bound and above the upper."""

    lower: float
    upper: float
    below: float
    above: float
    moved: Moved | None = None
    """Where the shares are small: what the answer would be without them."""

    @property
    def otherwise(self) -> str:
        """What the answer would be without them, a clause."""
        if self.moved is None:
            return ""
        name, without, here = self.moved.name, self.moved.without, self.moved.median
        return f" (were nobody there, {name} would be about {without:.4g} instead of {here:.4g})"

    @property
    def leans(self) -> bool:
        """Whether the answer hangs on the family's shape there."""
        return self.largest > LEANS or (self.moved is not None and self.moved.matters)

    @property
    def largest(self) -> float:
        """The share beyond either bound."""
        return max(self.below, self.above)

    @property
    def said(self) -> str:
        """In words."""
        sides = (self.below, f"below {self.lower:g}"), (self.above, f"above {self.upper:g}")
        known = [f"{share:.1%} {where}" for share, where in sides if share > HARDLY]
        return " and ".join(known) or "hardly any beyond the bounds"


@dataclass(frozen=True, slots=True)
class Certificate:
    """What was done, why, and how wrong the numbers may be."""

    method: str
    reason: str
    numerical_error: float | None = None
    """Estimated total variation between what is reported and the posterior that `method` stands
    for; of groups together how far any mean may be off, in its sds.
    """
    collapsed_distance: float | None = None
    """Total variation between the exact and the collapsed posterior, where both were computed."""
    predictive_tail: float | None = None
    """Probability, under the prior, of a release at least this far out; found by simulation, and
    never below its resolution.
    """
    rhat: float | None = None
    ess: float | None = None
    autocorrelation: float | None = None
    evaluations: int | None = None
    """Exact likelihood evaluations."""
    peaks: int = 1
    """Separate peaks of the posterior, of one parameter."""
    assumptions: tuple[str, ...] = ()
    conflict: float | None = None
    """Of several releases: the probability that they differ at least this much though they speak of
    one population.
    """
    instead_of: str | None = None
    """Why a better method did not serve."""
    records_kept: tuple[float, float] | None = None
    """5 and 95 % quantiles of the share of records that counted, where not all need to."""
    cautions: tuple[str, ...] = ()
    """What the method itself warns of."""
    beyond: Beyond | None = None
    """What the family puts beyond the bounds, where a release says least."""
    missing: str | None = None
    """What the records without a value count as, where the releases say."""
    persons: str | None = None
    """What several records of one person mean for the answer, where there may be several."""
    leaning: tuple[str, ...] = ()
    """The parameters, or columns of a table, that half of the weak prior would move."""

    @property
    def content(self) -> dict[str, Any]:
        """By name all that it says, for JSON."""
        held = {key: value for key, value in asdict(self).items() if value not in (None, ())}
        return held | {"warnings": list(self.warnings), "sentence": self.sentence}

    @property
    def warnings(self) -> tuple[str, ...]:
        """What a careful reader must know before using the posterior."""
        found = list(self.cautions)
        if self.beyond is not None and self.beyond.leans:
            found.append(
                f"of the records the family expects {self.beyond.said}, beyond the bounds"
                f"{self.beyond.otherwise}: the answer leans on the family's shape there, of which "
                "the release says next to nothing. "
                "noisewise mean, from a release with families.Moments (--moments), gives the mean "
                "of the bounded records whatever their shape; wider bounds or another family may "
                "serve too."
            )
        if self.leaning:
            found.append(
                f"what is said of {' and '.join(self.leaning)} leans on the weak prior: half as "
                "much of it would say something else. Narrower bounds or fewer cells, a prior that "
                "you mean, more records or a larger epsilon help."
            )
        if self.predictive_tail is not None and not self.predictive_tail >= UNLIKELY:
            found.append(
                "the release and the model disagree: under the prior a statistic this far out has "
                "a probability below "
                f"{_rounded_up(self.predictive_tail)}; check the prior, the bounds and n."
            )
        if self.conflict is not None and self.conflict < UNLIKELY:
            found.append(
                "the releases contradict each other: if all are of one population, they differ "
                "this much with a probability "
                f"below {_rounded_up(self.conflict)}; do they speak of one population? Infer from "
                "each by itself and compare."
            )
        if self.peaks > 1:
            found.append(
                f"the posterior has {self.peaks} separate peaks: look at the picture, for mean and "
                "sd describe none of them. "
                "Redacted records can leave two explanations, and so can a prior that reaches far "
                "beyond what the release says; a prior that knows better, or clamp instead of "
                "redact, tells them apart."
            )
        pooled = self.method == "pooled"
        if self.numerical_error is not None and not self.numerical_error <= (
            MOVED_BY_POOLING if pooled else INEXACT
        ):
            other = "each group by itself" if pooled else "another method"
            found.append(
                f"the numerical error is large ({self.numerical_error:.2g}); compare with {other}."
            )
        if self.rhat is not None and not self.rhat < BAD_RHAT:
            found.append(
                f"the chains disagree (R-hat {self.rhat:.2f}): do not use these draws. They may "
                "sit at different explanations of "
                "the release, between which more draws do not move them; "
                f"{self._better('which weighs them')}."
            )
        if self.ess is not None and not self.ess >= 400:
            found.append(
                f"the draws are worth only {self.ess:.0f} independent ones; "
                f"{self._better('or more draws')}."
            )
        if self.autocorrelation is not None and not self.autocorrelation <= LONG_TIME:
            found.append(
                f"the chains move slowly (autocorrelation time {self.autocorrelation:.0f} "
                f"steps); {self._better('')}."
            )
        if self.instead_of is not None and self.method == "collapsed":
            found.append(
                f"{self.instead_of}: this is the normal approximation, which may be off where few "
                "records lie within the bounds "
                "or where the noise is smaller than the sum's own spread."
            )
        elif self.instead_of is not None:
            found.append(f"{self.instead_of}.")
        if self.method == "none":
            found.append(
                f"no method gives a posterior here: {self.reason}; check n, the bounds, "
                "the noise and the prior."
            )
        if self.method == "naive":
            found.append(
                "naive ignores the noise: it is over-confident, and here for comparison only."
            )
        return tuple(found)

    def _better(self, why: str) -> str:
        """What to do about chains: `auto` is better where the person chose them, and chose them
        itself otherwise.
        """
        if self.reason.startswith("as asked"):
            gap = ", " if why.startswith("which") else " " if why else ""
            return f"use method='auto'{gap}{why}"
        return (
            "no other method serves here: a prior that knows more, or another release, tells more"
        )

    @property
    def sentence(self) -> str:
        """One line on how far to trust the posterior."""
        parts = [f"{self.method}: {self.reason}"]
        if self.numerical_error is not None:
            parts.append(f"numerical error about {self.numerical_error:.1g}")
        if self.collapsed_distance is not None:
            parts.append(
                f"the normal approximation would be off by {self.collapsed_distance:.2g} "
                "(total variation)"
            )
        if self.rhat is not None:
            parts.append(f"R-hat {self.rhat:.3f}, worth {self.ess:.0f} independent draws")
        if self.records_kept is not None:
            low, high = self.records_kept
            parts.append(f"between {low:.1%} and {high:.1%} of the records counted")
        if self.beyond is not None and not self.beyond.leans:
            parts.append(f"of the records the family expects {self.beyond.said}")
        if self.missing is not None:
            parts.append(self.missing)
        if self.persons is not None:
            parts.append(self.persons)
        parts.extend(f"WARNING: {warning}" for warning in self.warnings)
        return "; ".join(part.rstrip(".") for part in parts) + "."


def _rounded_up(p: float) -> str:
    """To four decimals, and never 0."""
    return f"{max(1, math.ceil(p * 1e4 - 1e-6)) / 1e4:g}"
