"""The command that does what a page does, to copy."""

import shlex
from collections.abc import Sequence
from pathlib import Path


def command(root: Path, words: Sequence[str]) -> str:
    """As it is pasted into any terminal: in the studio's folder."""
    return f"cd {shlex.quote(str(root))} &&\n{shlex.join(['noisewise', *words])}"


def option(name: str, *values: str) -> list[str]:
    """An option with its values, or nothing where they are left empty. A value that begins with a
    hyphen and is no number would be taken for an option, and is joined.
    """
    if not all(values):
        return []
    if len(values) == 1 and values[0].startswith("-"):
        return [f"{name}={values[0]}"]
    return [name, *values]
