"""Writing a file whole or not at all."""

import os
import stat
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO

from noisewise.errors import OutputError


def check_writable(path: Path, size: int) -> None:
    """Refuse, before anything is spent, a path that exists or whose folder takes no file of so many
    bytes.
    """
    try:
        taken = not path.name or _exists(path)
        if not taken:
            os.close(_opened(path.parent))
            with tempfile.TemporaryFile(dir=path.parent) as file:
                os.posix_fallocate(file.fileno(), 0, size)
    except (OSError, ValueError) as error:
        raise OutputError(
            f"cannot write to {path}: {_reason(error)}; choose another place."
        ) from None
    if taken:
        raise OutputError(
            f"{path} exists already, and a release is never overwritten; choose another name."
        )


def check_folder(path: Path) -> None:
    """Refuse, before a long run, a path whose folder takes no file, or that is a folder itself."""
    try:
        if path.is_dir():
            raise OutputError(f"{path} is a folder; say which file to write.")
        with tempfile.TemporaryFile(dir=path.parent):
            pass
    except (OSError, UnicodeError) as error:
        raise OutputError(
            f"cannot write to {path}: {_reason(error)}; choose another place."
        ) from None


def write_once(path: Path, data: bytes) -> None:
    """Write, flush to disk and only then give the file its name. A file that holds other content is
    never replaced.
    """
    try:
        _link_new(path, data)
    except FileExistsError:
        try:
            same = path.is_file() and path.read_bytes() == data
        except OSError:
            same = False
        if not same:
            raise OutputError(
                f"{path} exists already and holds something else; choose another name."
            ) from None
    except (OSError, ValueError) as error:
        raise OutputError(f"cannot write {path}: {_reason(error)}; choose another place.") from None


def put_in_place(path: Path, ending: str, old: BinaryIO, data: bytes) -> bool:
    """Put a new file in the old one's place at once: whoever opens the path finds one of them,
    whole. Then it is on disk.

    It is filled under the path and the ending, which nobody else may use. False if the old file
    still has a name: somebody has given it another meanwhile.
    """
    folder = _opened(path.parent)
    part = path.with_name(path.name + ending)
    try:
        part.unlink(missing_ok=True)
        try:
            with open(part, "xb") as file:
                _like(file.fileno(), os.fstat(old.fileno()))
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
            os.replace(part, path)
        finally:
            with suppress(OSError):
                part.unlink(missing_ok=True)
        os.fsync(folder)
        return _nameless(old.fileno(), path.parent)
    finally:
        os.close(folder)


def _like(file: int, old: os.stat_result) -> None:
    """Give it the old file's owner and group, as far as we may, and its permissions."""
    for owner in (old.st_uid, -1):
        with suppress(PermissionError):
            os.fchown(file, owner, old.st_gid)
            break
    os.fchmod(file, stat.S_IMODE(old.st_mode))


def _nameless(file: int, folder: Path) -> bool:
    """Whether an open file has no name left, but for the one that NFS gives a file that is removed
    while it is open.
    """
    found = os.fstat(file)
    if found.st_nlink == 0:
        return True
    with os.scandir(folder) as entries:
        return any(
            entry.name.startswith(".nfs") and entry.inode() == found.st_ino for entry in entries
        )


def _exists(path: Path) -> bool:
    """Whether anything has that name; one that no file can have raises an OSError or a
    ValueError.
    """
    try:
        os.lstat(path)
    except FileNotFoundError:
        return False
    return True


def _opened(folder: Path) -> int:
    """A folder, to be flushed to disk: it must be readable for that."""
    return os.open(folder, os.O_RDONLY | os.O_DIRECTORY)


def _reason(error: OSError | ValueError) -> str:
    return getattr(error, "strerror", None) or "its name cannot be written here"


def _link_new(path: Path, data: bytes) -> None:
    folder = _opened(path.parent)
    try:
        if not _link_nameless(path.name, folder, data):
            _link_named(path, data)
        os.fsync(folder)
    finally:
        os.close(folder)


def _link_nameless(name: str, folder: int, data: bytes) -> bool:
    """Fill a file that has no name yet: a process that dies leaves no trace of it. False where the
    system cannot do that.
    """
    try:
        handle = os.open(".", os.O_TMPFILE | os.O_WRONLY, dir_fd=folder)
    except (AttributeError, OSError):
        return False
    with os.fdopen(handle, "wb") as file:
        _fill(file, data)
        try:
            os.link(f"/proc/self/fd/{handle}", name, src_dir_fd=folder, dst_dir_fd=folder)
        except FileExistsError:
            raise
        except OSError:  # no /proc
            return False
    return True


def _link_named(path: Path, data: bytes) -> None:
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=".noisewise-", suffix=".part")
    try:
        with os.fdopen(handle, "wb") as file:
            _fill(file, data)
        try:
            os.link(name, path)  # unlike a rename, this fails where the path exists
        except FileExistsError:
            raise
        except OSError:  # a file system without hard links
            if _exists(path):
                raise FileExistsError from None
            os.rename(name, path)
    finally:
        with suppress(FileNotFoundError):
            os.unlink(name)


def _fill(file: BinaryIO, data: bytes) -> None:
    file.write(data)
    file.flush()
    os.fchmod(file.fileno(), 0o644)
    os.fsync(file.fileno())
