"""The file of a ledger: read whole, changed in memory, and replaced at once by a new one.

It is never changed where it stands; so it needs no journal beside it, and means the same under
whatever name it is found.
"""

import errno
import fcntl
import os
import shlex
import sqlite3
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, Literal, final

from noisewise.curator.ledger_format import APPLICATION_ID, VERSION, create, grow
from noisewise.errors import LedgerError
from noisewise.files import put_in_place, write_whole

BUSY_SECONDS = 60.0
"""How long a ledger is waited for that another process holds: a spend takes milliseconds."""
NEXT = "-next"
"""Ends the name of the file that is to take the ledger's place. A killed process may leave one,
which nobody reads.
"""
_SQLITES_OWN = ("-journal", "-wal", "-shm")
"""How SQLite ends the names of files that it takes for parts of a database, and might delete."""
_POLL_SECONDS = 0.01
"""How often a ledger that another process holds is tried again."""
_MAGIC = b"SQLite format 3\0"
"""The first bytes of any SQLite database."""
_SQLITE_LOCKS = (512, 0x40000000)
"""How many bytes SQLite locks, and from where on: whoever changes the file through SQLite must be
done before we begin.
"""


def advice(path: Path, dataset: str, currency: str = "epsilon") -> str:
    """The command that sets a limit."""
    return (
        f"noisewise ledger set-limit {shlex.quote(str(path))} --dataset {shlex.quote(dataset)} "
        f"--{currency} TOTAL"
    )


@final
@dataclass(frozen=True, slots=True)
class LedgerFile:
    """A ledger's path. What goes wrong with the file is said in our own words."""

    path: Path

    def owns(self, path: Path) -> bool:
        """Whether the path is the ledger's, or SQLite would take it for a part of it."""
        ledger = self.path.resolve()
        return path.resolve() in [
            ledger.with_name(ledger.name + ending) for ending in ("", NEXT, *_SQLITES_OWN)
        ]

    def create(self) -> None:
        """Make the file: of two makers at once, one makes a good ledger."""
        try:
            with closing(_memory()) as connection:
                create(connection)
                data = connection.serialize()
            write_whole(self.path, data)
        except FileExistsError:
            pass  # somebody made it meanwhile, just as good
        except (OSError, sqlite3.Error):
            raise LedgerError(
                f"cannot create the ledger {self.path}; check its folder and permissions."
            ) from None

    @contextmanager
    def reading(self, mode: Literal["rb", "r+b"] = "rb") -> Iterator[sqlite3.Connection]:
        """The ledger as it stands; what is changed in it is forgotten."""
        with (
            self._refusing() as path,
            open(path, mode) as file,
            closing(self._held(path, file)) as connection,
        ):
            yield connection

    @contextmanager
    def transaction(self) -> Iterator[sqlite3.Connection]:
        """The ledger with nobody else at it. At the end the changed one is on disk in its place;
        after an error nothing is.
        """
        with (
            self._refusing() as path,
            _alone(path) as file,
            closing(self._held(path, file)) as connection,
        ):
            connection.execute("BEGIN")
            yield connection
            connection.execute("COMMIT")
            data = connection.serialize()
            # left by format 3: what it says is over, but SQLite itself would still believe it
            with suppress(FileNotFoundError):
                path.with_name(path.name + "-journal").unlink()
            if not put_in_place(path, NEXT, file, data):
                raise LedgerError(
                    f"the ledger {self.path} was renamed or linked while it was written, and "
                    "nothing is released; leave it alone until releases are done."
                )

    @contextmanager
    def _refusing(self) -> Iterator[Path]:
        """The file's real path. What goes wrong with it is said in our own words."""
        if not self.path.is_file():
            raise LedgerError(
                f"there is no ledger {self.path}; make one with: {advice(self.path, 'NAME')}"
            )
        try:
            yield Path(os.path.realpath(self.path))
        # SQLite's message may quote the bytes of a damaged file
        except (sqlite3.Error, UnicodeDecodeError, OSError) as error:
            raise LedgerError(f"the ledger {self.path} cannot be used: {_reason(error)}") from None

    def _held(self, path: Path, file: BinaryIO) -> sqlite3.Connection:
        """The ledger in memory. A journal has no say in it: it may be of another time, when the
        file had another name.
        """
        version = self._recognise(file)
        connection = _memory()
        try:
            connection.deserialize(file.read())
            if version < VERSION:
                journal = path.with_name(path.name + "-journal")
                if journal.exists() and connection.execute("PRAGMA integrity_check").fetchone() != (
                    "ok",
                ):
                    raise LedgerError(
                        f"the ledger {self.path} was left half-written, with the rest in "
                        f"{journal.name}. If neither was renamed, linked or copied since, settle "
                        f"it with: sqlite3 {shlex.quote(str(self.path))} 'PRAGMA integrity_check'. "
                        "Else restore a backup, without that journal."
                    )
                connection.execute("BEGIN")
                grow(connection, version)
                connection.execute("COMMIT")
        except BaseException:
            connection.close()
            raise
        return connection

    def _recognise(self, file: BinaryIO) -> int:
        """The format, from SQLite's header (its documentation, "The Database Header")."""
        header = file.read(100)
        file.seek(0)
        if header[:16] != _MAGIC or int.from_bytes(header[68:72]) != APPLICATION_ID:
            raise LedgerError(f"{self.path} is not a noisewise ledger; check the path.")
        version = int.from_bytes(header[60:64])
        if not 1 <= version <= VERSION:
            raise LedgerError(
                f"ledger format {version} of {self.path} is not known here; update noisewise."
            )
        if header[18:20] != b"\1\1":  # what was spent last may stand in another file
            raise LedgerError(
                f"the ledger {self.path} is in a mode of SQLite's that noisewise does not use; "
                f"bring it back with: sqlite3 {shlex.quote(str(self.path))} 'PRAGMA journal_mode = "
                "DELETE'"
            )
        if os.fstat(file.fileno()).st_nlink > 1:
            raise LedgerError(
                f"the ledger {self.path} has a second name (a hard link), under which spends would "
                "be forgotten; remove one."
            )
        return version


def _memory() -> sqlite3.Connection:
    if not hasattr(sqlite3.Connection, "deserialize"):
        raise LedgerError("a ledger needs SQLite 3.36 or newer; install a Python that has it.")
    return sqlite3.connect(":memory:", isolation_level=None)


@contextmanager
def _alone(path: Path) -> Iterator[BinaryIO]:
    """The file of that name, held by nobody else. Whoever had to wait looks again, since another
    file may have taken its place meanwhile.
    """
    end = time.monotonic() + BUSY_SECONDS
    while True:
        with open(path, "r+b") as file:
            try:
                _lock(file, end)
                if os.path.samestat(os.fstat(file.fileno()), os.stat(path)):
                    yield file
                    return
            finally:
                # said aloud: a child forked meanwhile has the file open too
                fcntl.flock(file, fcntl.LOCK_UN)


def _lock(file: BinaryIO, end: float) -> None:
    """Against other processes and threads, and against whoever would change the file where it
    stands, through SQLite.
    """
    while True:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB, *_SQLITE_LOCKS)
            return
        except (BlockingIOError, PermissionError):
            if time.monotonic() > end:
                raise BlockingIOError from None
            time.sleep(_POLL_SECONDS)


def _reason(error: sqlite3.Error | UnicodeDecodeError | OSError) -> str:
    """The remedy; SQLite's own words tell nothing of records."""
    if isinstance(error, BlockingIOError):
        return (
            f"another process has held it for over {BUSY_SECONDS:g} s; wait for that one and try "
            "again."
        )
    if isinstance(error, OSError):
        why = os.strerror(error.errno) if error.errno else "it cannot be read or written"
        hint = (
            "mount its folder, not the file alone"
            if error.errno == errno.EBUSY
            else "check the disk and the permissions"
        )
        return f"{why}, of it or its folder; {hint}."
    message = str(error)
    if (
        isinstance(error, UnicodeDecodeError)
        or "not a database" in message
        or "malformed" in message
    ):
        return (
            "it is not a noisewise ledger, or a damaged one; check the path, or restore it from a "
            "backup."
        )
    return f"{message}; check the disk and the permissions."
