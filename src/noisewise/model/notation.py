"""Families and priors as a person types them: `exponential`, `gamma(shape=2, rate=20)`. Nothing is
executed.
"""

import ast
from collections.abc import Callable, Mapping
from inspect import signature
from typing import TypeVar

from noisewise.errors import NoisewiseError
from noisewise.model import column_priors, families, priors

T = TypeVar("T")
MAX_LENGTH = 100_000
"""Of a text for a prior or a family: longer ones are no person's."""
FAMILY_EXAMPLE = "exponential, normal(variance=4) or categorical(categories=['a', 'b'], other='b')"


def family(text: str) -> families.Family:
    """A family from its kind and settings, such as `normal(variance=4)`."""
    return _call(text, families.REGISTRY, "family", FAMILY_EXAMPLE)


def prior(text: str) -> priors.Prior:
    """A prior from its kind and hyperparameters, such as `beta(alpha=1, beta=1)`."""
    return _call(text, priors.REGISTRY, "prior", "gamma(shape=2, rate=20)")


def column_prior(text: str) -> column_priors.Linear | column_priors.NormalInverseWishart:
    """A prior of several columns, such as `linear(sd=1, shape=1, scale=0.25)`."""
    registry: Mapping[
        str, Callable[..., column_priors.Linear | column_priors.NormalInverseWishart]
    ] = column_priors.REGISTRY
    return _call(text, registry, "prior", "linear(sd=1, shape=1, scale=0.25)")


def _call(text: str, registry: Mapping[str, Callable[..., T]], what: str, example: str) -> T:
    name, fields = _parse(text, what, example)
    if name not in registry:
        raise NoisewiseError(f"unknown {what} {name!r}; known are: {', '.join(sorted(registry))}.")
    try:
        return registry[name](**fields)
    except (TypeError, OverflowError):
        takes = ", ".join(f"{setting}=..." for setting in signature(registry[name]).parameters)
        raise NoisewiseError(
            f"the {what} {name} cannot be made of {text[:80]!r}; its settings are: {name}({takes})."
        ) from None


def _parse(text: str, what: str, example: str) -> tuple[str, dict[str, object]]:
    wrong = NoisewiseError(f"cannot read the {what} {text[:80]!r}; write it like {example}.")
    if len(text) > MAX_LENGTH:
        raise wrong
    try:
        tree = ast.parse(text.strip(), mode="eval").body
        if isinstance(tree, ast.Name):
            return tree.id, {}
        if not isinstance(tree, ast.Call) or not isinstance(tree.func, ast.Name) or tree.args:
            raise wrong
        fields = {keyword.arg: ast.literal_eval(keyword.value) for keyword in tree.keywords}
    except (SyntaxError, ValueError, TypeError, RecursionError, MemoryError):
        raise wrong from None
    if None in fields or len(fields) < len(tree.keywords):  # a ** in the text, or a setting twice
        raise wrong
    return tree.func.id, {str(name): value for name, value in fields.items()}
