"""Posteriors by slow integration, written apart from the library: the oracle of bench/stress.py.

A problem is a plain dict, as problems.py makes them. p(theta | y) is proportional to prior(theta)
times the likelihood of y, and the likelihood is computed as it is defined, without a normal
approximation of the sums.
"""

from slow.counts import categorical
from slow.line import one_parameter
from slow.plane import two_parameters
from slow.types import Answer, Marginal, Problem

__all__ = ["Answer", "Marginal", "Problem", "solve"]


def solve(problem: Problem) -> Answer:
    """The posterior of a problem."""
    kind = problem["family"]["kind"]
    if kind == "categorical":
        return categorical(problem)
    if kind == "normal" and problem["family"]["unknown"] == "both":
        return two_parameters(problem)
    return one_parameter(problem)
