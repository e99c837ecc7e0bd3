"""From a problem to a solution for each of its groups: what one method cannot solve goes to the
next.
"""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from noisewise.errors import UnsupportedCombination
from noisewise.inference import effort, methods
from noisewise.inference.methods.base import Method, Request, Unsolved
from noisewise.inference.problem import Problem
from noisewise.inference.solution import Solution
from noisewise.model.arrays import IntArray

NUMERICAL = (ValueError, IndexError, ArithmeticError, np.linalg.LinAlgError, MemoryError)
"""What NumPy raises where numbers are out of its reach."""
ASKED = "as asked"
"""The reason for a method that the person chose."""


class Solver:
    """Runs the method that was asked for, or the best, and the next ones where it gives no answer;
    `why` holds of each group why a better method gave none.
    """

    def __init__(self, problem: Problem, name: str, request: Request) -> None:
        self.problem, self.name, self.request = problem, name, request
        self.why: dict[int, str] = {}

    def solve(self) -> list[tuple[str, Solution]]:
        """For each group the method's name and its solution."""
        groups = self.problem.groups
        found: dict[int, tuple[str, Solution]] = {}
        with np.errstate(all="ignore"):  # impossible thetas have log density -inf, on purpose
            for method, reason in self._order():
                todo = np.array([g for g in range(groups) if g not in found], dtype=np.int64)
                if todo.size == 0:
                    break
                try:
                    solved = self._attempt(method, reason, todo)
                except UnsupportedCombination:
                    if found or self.why:  # others have an answer, or a reason for having none
                        continue
                    raise
                found |= {g: (method.name, solution) for g, solution in solved.items()}
        return [found.get(g, ("none", self._unsolved(g))) for g in range(groups)]

    def _order(self) -> list[tuple[Method, str]]:
        automatic = [(one, one.reason(self.problem)) for one in methods.automatic(self.problem)]
        if self.name != methods.AUTO:
            asked = methods.named(self.name, self.problem)
            return [(asked, ASKED), *(pair for pair in automatic if pair[0] is not asked)]
        if not automatic:
            raise UnsupportedCombination(_no_method(self.problem))
        return automatic

    def _attempt(self, method: Method, reason: str, groups: IntArray) -> dict[int, Solution]:
        """The solutions of those groups for which the method gives a sound answer."""
        request = replace(
            self.request,
            reason=reason,
            generator=lambda g: self.request.generator(int(groups[g])),
        )
        try:
            with effort.limited(groups.size):
                solutions = method.solve(self.problem.take(groups), request)
        except UnsupportedCombination:  # a ValueError too
            raise
        except (effort.TooMuchWork, *NUMERICAL) as failure:
            if groups.size > 1:  # find out which of them it is
                parts = [
                    self._attempt(method, reason, groups[k : k + 1]) for k in range(groups.size)
                ]
                return {g: solution for part in parts for g, solution in part.items()}
            slow = isinstance(failure, (effort.TooMuchWork, MemoryError))
            said = "would take too long" if slow else "gives no finite answer"
            self.why[int(groups[0])] = f"{method.name} {said}"
            return {}
        out: dict[int, Solution] = {}
        for g, solution, sound in zip(
            groups, solutions, _sound(solutions, self.problem), strict=True
        ):
            if sound and solution.settled:
                out[int(g)] = solution
            else:
                said = "does not settle" if sound else "gives no finite answer"
                self.why[int(g)] = f"{method.name} {said}"
        return out

    def _unsolved(self, group: int) -> Solution:
        return Unsolved(self.problem.family, self.why.get(group, ""))


def _no_method(problem: Problem) -> str:
    """Why each of the methods that `auto` may choose does not serve."""
    refusals = [one.refusal(problem) for one in methods.REGISTRY if one.automatic]
    return "no method serves here. " + " ".join(said for said in refusals if said)


def _sound(solutions: Sequence[Solution], problem: Problem) -> list[bool]:
    """Whether each posterior's figures are numbers (an infinite moment is one that does not
    exist).
    """
    found = solutions[0].found_with()
    if found is None:
        return [
            all(
                not np.isnan(np.stack(solution.moments(j))).any()
                for j in range(len(problem.family.parameters))
            )
            for solution in solutions
        ]
    good = np.ones(len(solutions), dtype=bool)
    for marginal in found[0].marginals():
        good &= np.isfinite(marginal.summary[:, 2:]).all(axis=1)
        good &= ~np.isnan(marginal.summary[:, :2]).any(axis=1)
    return [bool(x) for x in good]
