"""The reference has every public name, and every public name says what it is."""

import inspect
import re
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

import noisewise
from noisewise import errors, families, noise, priors, study

ROOT = Path(__file__).parents[1]
REFERENCE = "".join(page.read_text() for page in sorted((ROOT / "docs/reference").glob("*.md")))
SHOWN = re.findall(r"^::: (\S+)$", REFERENCE, re.MULTILINE)
HEADINGS = re.findall(r"^      heading: (\S+)$", REFERENCE, re.MULTILINE)
MODULES = {"families": families, "noise": noise, "priors": priors}


def public_names() -> list[str]:
    """Of noisewise, of the modules that it names, of studies and of errors."""
    names = [f"noisewise.{name}" for name in noisewise.__all__ if name not in MODULES]
    for place, module in (*MODULES.items(), ("study", study), ("errors", errors)):
        own = [
            name
            for name, value in vars(module).items()
            if inspect.isclass(value) and value.__module__ == module.__name__ and name[0] != "_"
        ]
        names += [f"noisewise.{place}.{name}" for name in getattr(module, "__all__", own)]
    return names


def value_of(path: str) -> Any:
    """What a dotted path names."""
    try:
        return import_module(path)
    except ImportError:
        owner, _, name = path.rpartition(".")
        return getattr(value_of(owner), name)


@pytest.mark.parametrize("name", public_names())
def test_every_public_name_stands_in_the_reference(name: str) -> None:
    assert name in SHOWN or name in HEADINGS, f"docs/reference has no ::: {name}"


@pytest.mark.parametrize("name", sorted({*public_names(), *SHOWN}))
def test_what_stands_in_the_reference_says_what_it_is(name: str) -> None:
    value = value_of(name)
    if inspect.isclass(value) or inspect.isfunction(value):
        assert not silent(value), f"{name}: no docstring on {', '.join(silent(value))}"


def silent(value: Any) -> list[str]:
    """It and its methods, where neither they nor what they override have a docstring."""
    found = [] if inspect.getdoc(value) and not made(value) else [value.__name__]
    if inspect.isclass(value):
        for name, member in inspect.getmembers_static(value):
            member = member if isinstance(member, property) else getattr(value, name)
            if name[0] != "_" and is_method(member) and not inspect.getdoc(member):
                found.append(name)
    return found


def made(value: Any) -> bool:
    """Whether its docstring is the signature that dataclasses write by themselves."""
    return (value.__doc__ or "").startswith(f"{value.__name__}(")


def is_method(member: Any) -> bool:
    """Functions in every guise, and properties."""
    return inspect.isroutine(member) or isinstance(member, property)


def test_the_test_finds_silence() -> None:
    class Silent:
        """It speaks."""

        def method(self) -> None: ...

    assert silent(Silent) == ["method"]
    assert silent(type("Mute", (), {})) == ["Mute"]
