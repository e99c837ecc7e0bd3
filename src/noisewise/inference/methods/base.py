"""What a method is: it says which problems it serves, and solves them."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from noisewise.errors import UnsupportedCombination
from noisewise.inference.certificate import Certificate
from noisewise.inference.problem import Problem, example
from noisewise.inference.quantities import Nothing, Quantity
from noisewise.inference.solution import Solution
from noisewise.model.arrays import FloatArray
from noisewise.model.derived import Derived
from noisewise.model.family import Parameter, Parametric

Progress = Callable[[float], None]


@dataclass(frozen=True)
class Request:
    """What was asked for besides the problem itself."""

    reason: str
    """Why this method: a clause of the certificate."""
    draws: int = 4000
    variant: str = "joint"
    chains: int = 8
    generator: Callable[[int], np.random.Generator] = lambda group: np.random.default_rng(group)
    """Of each group, for methods that sample."""
    progress: Progress | None = None
    assumptions: tuple[str, ...] = ()


class Method(ABC):
    """A way from a problem to the posteriors of its groups.

    Several methods may share a name, each for its own kind of family; at most one of them serves a
    problem.
    """

    name: ClassVar[str]
    summary: ClassVar[str]
    """What it does, a clause for the command line's help."""
    automatic: ClassVar[bool] = True
    """Whether `auto` may choose it."""

    density: ClassVar[bool] = False
    """Whether it leaves a density rather than draws."""

    @abstractmethod
    def refusal(self, problem: Problem) -> str | None:
        """Why it does not serve the problem, and what does; None if it serves."""

    @abstractmethod
    def reason(self, problem: Problem) -> str:
        """Why `auto` chooses it for a problem that it serves."""

    @abstractmethod
    def solve(self, problem: Problem, request: Request) -> list[Solution]:
        """One solution for each group."""


def needs_conjugate(name: str, problem: Problem) -> str | None:
    """The refusal of a method that updates theta by conjugacy; None where the prior allows that."""
    if problem.conjugate:
        return None
    kind, own = problem.family.kind, problem.family.prior
    has = "which has none" if own is None else f"such as {example(problem.family)}"
    return (
        f"{name} needs the conjugate prior of the {kind} family, {has}; use method='auto' (exact) "
        "for any other."
    )


@dataclass(frozen=True)
class Unsolved(Solution):
    """A group for which no method gives an answer, among others that have one."""

    family: Parametric
    why: str

    def moments(self, parameter: int) -> tuple[FloatArray, FloatArray]:
        nothing = np.full(self.family.parameters[parameter].size, np.inf)
        return nothing, nothing

    def quantile(self, parameter: int, q: FloatArray) -> FloatArray:
        return np.full((q.size, self.family.parameters[parameter].size), np.inf)

    def cdf(self, parameter: int, x: FloatArray) -> FloatArray:
        return np.full(np.shape(x), np.nan)

    def derived(self, which: Derived, parameters: Sequence[Parameter]) -> Quantity:
        return Nothing()

    def draw(self, rng: np.random.Generator, size: int) -> list[FloatArray]:
        raise UnsupportedCombination(f"there are no draws of this posterior: {self.why}.")

    def certificate(self) -> Certificate:
        return Certificate("none", self.why)
