"""The one folder that the studio sees: names inside it, and nothing outside."""

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import final

from noisewise.errors import NoisewiseError

DATA = (".csv", ".parquet")
"""How names of tables of records end."""
MOST_NAMES = 500
"""Files that are offered to choose from; others can be named."""
DEEPEST = 2
"""Folders below the top whose files are offered."""
HEAD = 4096
"""Bytes that tell a release or a ledger."""


@final
@dataclass(frozen=True, slots=True)
class Folder:
    """By its real path."""

    root: Path

    def inside(self, name: str, what: str = "file") -> Path:
        """The path of a name inside the folder, relative to it. Nothing need be there yet."""
        wrong = NoisewiseError(
            f"the {what} {name!r} must be named inside the folder, such as visits.csv: without "
            "'..', and no link that leads out."
        )
        if not name or not name.isprintable() or "\\" in name or name.startswith(("-", "/", "~")):
            raise wrong
        path = Path(name)
        if path.is_absolute() or ".." in path.parts or any(p.startswith(".") for p in path.parts):
            raise wrong
        try:
            real = (self.root / path).resolve()
        except (OSError, RuntimeError, ValueError):  # links in a circle, before Python 3.13
            raise wrong from None
        if not real.is_relative_to(self.root) or real == self.root:
            raise wrong
        # Python 3.13 leaves links in a circle as they are
        if any(step.is_symlink() for step in (real, *real.parents)):
            raise wrong
        return path

    def existing(self, name: str, what: str = "file") -> Path:
        """The same of a file that must be there."""
        path = self.inside(name, what)
        if not (self.root / path).is_file():
            raise NoisewiseError(f"there is no {what} {name!r} in the folder; check its name.")
        return path

    def tables(self) -> list[str]:
        """Names of tables of records: what is in them is not looked at."""
        return [name for name in self._names() if name.endswith(DATA)]

    def releases(self) -> list[str]:
        """Names of releases."""
        return [
            name
            for name in self._names()
            if name.endswith(".json") and b'"noisewise-release"' in self._head(name)
        ]

    def ledgers(self) -> list[str]:
        """Names of ledgers, from SQLite's header."""
        return [
            name
            for name in self._names()
            if name.endswith((".db", ".sqlite")) and self._head(name)[68:72] == b"NZLG"
        ]

    def _head(self, name: str) -> bytes:
        path = self.root / name
        try:
            if not path.is_file():  # a pipe would be waited for
                return b""
            with open(path, "rb") as file:
                return file.read(HEAD)
        except OSError:
            return b""

    def _names(self) -> list[str]:
        found = []
        for name in self._walk():
            try:
                self.inside(name)
            except NoisewiseError:
                continue
            found.append(name)
            if len(found) == MOST_NAMES:
                break
        return sorted(found)

    def _walk(self) -> Iterator[str]:
        for place, folders, files in os.walk(self.root):
            under = Path(place).relative_to(self.root)
            deep = len(under.parts)
            folders[:] = sorted(
                one for one in folders if deep < DEEPEST and not one.startswith((".", "_"))
            )
            for one in sorted(files):
                if one.endswith((*DATA, ".json", ".db", ".sqlite")):
                    yield str(under / one)
