"""Models to choose from, with a plan to begin with: the numbers are examples, not of any table."""

from dataclasses import dataclass
from typing import final


@final
@dataclass(frozen=True, slots=True)
class Choice:
    """One model: how it is typed, what it is for, and an example to plan with."""

    text: str
    label: str
    truth: str
    lower: str = ""
    upper: str = ""
    """Bounds; empty where the family has its own."""
    quick: bool = True
    """Whether one parameter is unknown, so that a curve follows the slider."""


CHOICES = (
    Choice("exponential", "Waiting times (exponential)", "mean=14", "0", "60"),
    Choice("poisson", "Counts of events (Poisson)", "rate=3", "0", "20"),
    Choice("bernoulli", "Yes or no, 1 or 0 (Bernoulli)", "probability=0.3"),
    Choice("geometric", "Tries until it works (geometric)", "probability=0.3", "1", "20"),
    Choice("normal", "Measurements (normal)", "mean=120 sd=15", "60", "220", False),
    Choice(
        "log_normal",
        "Incomes, skewed sizes (log-normal)",
        "log_mean=10 log_variance=0.5",
        "1000",
        "500000",
        False,
    ),
    Choice("gamma", "Skewed, shape unknown (gamma)", "shape=2 rate=0.1", "0", "100", False),
)
"""What people have most; any other family is written out, as on the command line."""
BY_TEXT = {one.text: one for one in CHOICES}
"""The same by how they are typed."""
