"""What is filled in to plan, and where its sliders may stand."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import final

from noisewise.studio.commands import option
from noisewise.studio.forms import Form, Wrong

EPSILONS = (
    0.01,
    0.02,
    0.03,
    0.05,
    0.07,
    0.1,
    0.15,
    0.2,
    0.3,
    0.5,
    0.7,
    1.0,
    1.5,
    2.0,
    3.0,
    5.0,
    10.0,
)
"""Where the slider of the privacy cost may stand."""
SIZES = (200, 300, 500, 700, *(k * 10**d for d in (3, 4, 5) for k in (1, 2, 3, 5, 7)), 10**6)
"""Where the slider of the number of records may stand."""


def _place(given: str, steps: Sequence[object], usual: int) -> int:
    """Of a slider; what is no place is the usual one."""
    inside = given.isascii() and given.isdigit() and len(given) < 5
    return min(int(given), len(steps) - 1) if inside else usual


@final
@dataclass(frozen=True, slots=True)
class PlanForm(Form):
    """What intervals are wanted of."""

    family: str = "exponential"
    written: str = ""
    lower: str = ""
    upper: str = ""
    outside: str = ""
    truth: str = ""
    size: str = ""
    cost: str = ""
    unit: str = ""
    several: str = ""
    costs: str = ""
    width: str = ""

    @property
    def model(self) -> str:
        return self.written or self.family

    def about(self) -> list[str]:
        """What every plan of it says."""
        return [
            *option("--family", self.model),
            *option("--bounds", self.lower, self.upper),
            *(option("--outside", self.outside) if self.lower else []),
            *(["--truth", *self.truth.split()] if self.truth else []),
            *option("--unit", self.unit),
        ]

    @property
    def n(self) -> int:
        """Where the slider stands."""
        return SIZES[_place(self.size, SIZES, SIZES.index(2000))]

    @property
    def epsilon(self) -> float:
        return EPSILONS[_place(self.cost, EPSILONS, EPSILONS.index(0.5))]

    def words(self) -> list[str]:
        """Of the curve's point."""
        return ["plan", *self.about(), "--n", str(self.n), "--epsilon", f"{self.epsilon:g}"]

    def words_of_table(self) -> list[str]:
        """Of a table of several n and costs."""
        return [
            "plan",
            *self.about(),
            "--n",
            *self.several.split(),
            "--epsilon",
            *self.costs.split(),
            *option("--width", self.width),
        ]

    def check_table(self) -> None:
        wrong = Wrong()
        wrong.need("several", self.several, "Say numbers of records, such as 500 2000 10000.")
        wrong.need("costs", self.costs, "Say privacy costs, such as 0.1 0.5 1.")
        wrong.finish(self)
