"""Families and priors as a person types them: `exponential`, `gamma(shape=2, rate=20)`, `rate ~
lognorm(s=1, scale=0.1)`. Nothing is executed.
"""

import ast
import re
from collections.abc import Callable, Mapping
from dataclasses import fields, is_dataclass
from inspect import signature
from typing import TypeVar

import numpy as np

from noisewise.errors import NoisewiseError
from noisewise.model import column_priors, families, priors

T = TypeVar("T")
MAX_LENGTH = 100_000
"""Of a text for a prior or a family: longer ones are no person's."""
_TILDE = re.compile(r"(?:^|,)\s*([A-Za-z]\w*)\s*~")
"""Where the distribution of a parameter begins: its name and a tilde."""
DISTRIBUTION_EXAMPLE = "rate ~ lognorm(s=1, scale=0.1)"
FAMILY_EXAMPLE = "exponential, normal(variance=4) or categorical(categories=['a', 'b'], other='b')"


def family(text: str) -> families.Family:
    """A family from its kind and settings, such as `normal(variance=4)`."""
    return _call(text, families.REGISTRY, "family", FAMILY_EXAMPLE)


def prior(text: str) -> priors.Prior:
    """A prior from its kind and hyperparameters, such as `beta(alpha=1, beta=1)`, or from a
    distribution of SciPy's for each parameter, such as `rate ~ lognorm(s=1, scale=0.1)`.
    """
    if "~" in text[:MAX_LENGTH]:
        return _independent(text)
    return _call(text, priors.REGISTRY, "prior", "gamma(shape=2, rate=20)")


def column_prior(text: str) -> column_priors.Linear | column_priors.NormalInverseWishart:
    """A prior of several columns, such as `linear(sd=1, shape=1, scale=0.25)`."""
    registry: Mapping[
        str, Callable[..., column_priors.Linear | column_priors.NormalInverseWishart]
    ] = column_priors.REGISTRY
    return _call(text, registry, "prior", "linear(sd=1, shape=1, scale=0.25)")


def text_of(prior: object) -> str:
    """A prior as it is typed: what reads texts makes an equal one of it."""
    if not is_dataclass(prior):
        return str(prior)
    held = {one.name: np.asarray(getattr(prior, one.name)).tolist() for one in fields(prior)}
    settings = ", ".join(f"{name}={value!r}" for name, value in held.items())
    return f"{getattr(prior, 'kind', type(prior).__name__)}({settings})"


def _independent(text: str) -> priors.Independent:
    before, *parts = _TILDE.split(text)
    names, laws = parts[::2], parts[1::2]
    if before.strip() or not names or len(set(names)) < len(names) or len(text) > MAX_LENGTH:
        raise NoisewiseError(
            f"cannot read the prior {text[:80]!r}; write it like {DISTRIBUTION_EXAMPLE!r}, of "
            "several parameters with a comma between them."
        )
    return priors.Independent(
        **{name: _distribution(law) for name, law in zip(names, laws, strict=True)}
    )


def _distribution(text: str) -> object:
    """A distribution of SciPy's from its name and settings."""
    from scipy import stats

    name, numbers, settings = _parse_all(text, "distribution", "lognorm(s=1, scale=0.1)")
    known = None if name.startswith("_") else getattr(stats, name, None)
    if not isinstance(known, stats.rv_continuous):
        raise NoisewiseError(
            f"{name[:80]!r} is no continuous distribution of scipy.stats; such are norm, lognorm, "
            "gamma, invgamma, beta, uniform, halfnorm, t and cauchy."
        )
    shapes = known.shapes.split(", ") if known.shapes else []
    every = (*numbers, *settings.values())
    if not all(isinstance(value, (int, float)) for value in every):
        raise NoisewiseError(f"the settings of {name} must be numbers, such as scale=0.1.")
    try:
        return known(*numbers, **settings)
    except (TypeError, ValueError, OverflowError):
        takes = ", ".join(f"{setting}=..." for setting in (*shapes, "loc", "scale"))
        raise NoisewiseError(
            f"the distribution {name} cannot be made of {text.strip()[:80]!r}; its settings are: "
            f"{name}({takes}), of which loc and scale may be left out."
        ) from None


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
    """The name, and its settings by their names."""
    name, numbers, settings = _parse_all(text, what, example)
    if numbers:
        raise NoisewiseError(f"cannot read the {what} {text[:80]!r}; write it like {example}.")
    return name, settings


def _parse_all(text: str, what: str, example: str) -> tuple[str, list[object], dict[str, object]]:
    """The name, its settings without a name and those with one."""
    wrong = NoisewiseError(f"cannot read the {what} {text[:80]!r}; write it like {example}.")
    if len(text) > MAX_LENGTH:
        raise wrong
    try:
        tree = ast.parse(text.strip(), mode="eval").body
        if isinstance(tree, ast.Name):
            return tree.id, [], {}
        if not isinstance(tree, ast.Call) or not isinstance(tree.func, ast.Name):
            raise wrong
        numbers = [ast.literal_eval(argument) for argument in tree.args]
        fields = {keyword.arg: ast.literal_eval(keyword.value) for keyword in tree.keywords}
    except (SyntaxError, ValueError, TypeError, RecursionError, MemoryError):
        raise wrong from None
    if None in fields or len(fields) < len(tree.keywords):  # a ** in the text, or a setting twice
        raise wrong
    return tree.func.id, numbers, {str(name): value for name, value in fields.items()}
