"""The methods in one list, the best first. `auto` takes the first that serves a problem; what it
cannot solve goes to the next.
"""

from noisewise.errors import UnsupportedCombination
from noisewise.inference.methods.base import Method
from noisewise.inference.methods.categorical import ExactCounts, NaiveCounts
from noisewise.inference.methods.gibbs import Gibbs
from noisewise.inference.methods.grids import Collapsed, Exact
from noisewise.inference.methods.naive import Naive
from noisewise.inference.problem import Problem

AUTO = "auto"
"""The name by which the best method is asked for."""
REGISTRY: list[Method] = [
    Exact(),
    ExactCounts(),
    Collapsed(),
    Gibbs(),
    Naive(),
    NaiveCounts(),
]


def names() -> tuple[str, ...]:
    """What a person may ask for, `auto` first."""
    return (AUTO, *dict.fromkeys(method.name for method in REGISTRY))


def describe() -> str:
    """Every name with what it does, for a help text."""
    said = {method.name: method.summary for method in reversed(REGISTRY)}
    parts = [f"{name}: {said[name]}" for name in names()[1:]]
    return f"{AUTO}: the best that serves. " + ". ".join(parts) + "."


def check_name(name: str) -> None:
    """Refuse a name that no method has."""
    if name not in names():
        raise UnsupportedCombination(f"unknown method {name!r}; use {', '.join(names())}.")


def automatic(problem: Problem) -> list[Method]:
    """Those that serve a problem, the best first."""
    return [one for one in REGISTRY if one.automatic and one.refusal(problem) is None]


def named(name: str, problem: Problem) -> Method:
    """The one of that name that serves the problem, or its refusal."""
    refusals = []
    for method in REGISTRY:
        if method.name == name:
            refusal = method.refusal(problem)
            if refusal is None:
                return method
            refusals.append(refusal)
    raise UnsupportedCombination(refusals[0])
