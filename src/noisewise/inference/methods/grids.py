"""exact and collapsed: posteriors of one or two parameters on grids that follow them."""

from typing import ClassVar, final

from noisewise.inference.grid import one_parameter
from noisewise.inference.methods.base import Method, Request
from noisewise.inference.methods.grid_solutions import (
    OneParameter,
    OneParameterBatch,
    TwoParameterBatch,
    TwoParameters,
    solve_one,
    solve_two,
)
from noisewise.inference.problem import Problem
from noisewise.inference.solution import Solution

MOST_PARAMETERS, MOST_STATISTICS = 2, 2
"""What grids, and the exact likelihood, serve."""


def _too_many_parameters(name: str, problem: Problem) -> str | None:
    parameters = problem.family.parameters
    if len(parameters) > MOST_PARAMETERS or any(p.size > 1 for p in parameters):
        return (
            f"{name} serves one or two parameters, the {problem.family.kind} family has more; use "
            "'gibbs'."
        )
    return None


def _too_many_statistics(name: str, problem: Problem) -> str:
    return (
        f"{name} serves one or two statistics with this noise, here are "
        f"{problem.observations[0].dimension}; use method='gibbs'."
    )


@final
class Exact(Method):
    """The likelihood by Fourier series, to an error that the certificate states."""

    name: ClassVar[str] = "exact"
    summary: ClassVar[str] = "no approximation of the likelihood"
    density: ClassVar[bool] = True

    def refusal(self, problem: Problem) -> str | None:
        if problem.family.statistic_kind != "sums":
            return f"the {problem.family.kind} family has no sums."
        refusal = _too_many_parameters(self.name, problem)
        if refusal is None and problem.observations[0].dimension > MOST_STATISTICS:
            return _too_many_statistics(self.name, problem)
        return refusal

    def reason(self, problem: Problem) -> str:
        return "no approximation of the likelihood"

    def solve(self, problem: Problem, request: Request) -> list[Solution]:
        return solve(problem, request, self.name, problem.exact)


@final
class Collapsed(Method):
    """The true sums integrated out as if they were normal."""

    name: ClassVar[str] = "collapsed"
    summary: ClassVar[str] = "the sums taken as normal"
    density: ClassVar[bool] = True

    def refusal(self, problem: Problem) -> str | None:
        if problem.family.statistic_kind != "sums":
            return (
                f"collapsed does not serve the {problem.family.kind} family; use method='exact' "
                "(or 'auto'), or 'gibbs'."
            )
        refusal = _too_many_parameters(self.name, problem)
        few = min(one.shape.most_statistics for one in problem.observations)
        if refusal is None and problem.observations[0].dimension > few:
            return _too_many_statistics(self.name, problem)
        return refusal

    def reason(self, problem: Problem) -> str:
        if problem.observations[0].dimension > MOST_STATISTICS:
            return "normal noise in more dimensions than the exact method serves"
        return "the sums taken as normal"

    def solve(self, problem: Problem, request: Request) -> list[Solution]:
        return solve(problem, request, self.name, None)


def solve(
    problem: Problem, request: Request, name: str, exact: one_parameter.Exact | None
) -> list[Solution]:
    """The posteriors of all groups, with the likelihood `exact`, or the collapsed one."""
    groups = range(problem.groups)
    if len(problem.family.parameters) == 1:
        curves = solve_one(problem, exact)
        one = OneParameterBatch(problem, curves, exact is not None, request)
        return [OneParameter(one, g, name) for g in groups]
    patches = solve_two(problem, exact)
    two = TwoParameterBatch(problem, patches, exact is not None, request)
    return [TwoParameters(two, g, name) for g in groups]
