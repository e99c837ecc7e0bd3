"""Writing a file whole or not at all."""

import os
import stat
import tempfile
import uuid
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO

from noisewise.errors import OutputError

Permit = Callable[[int], None]
"""Sets the owner and the permissions of an open file, by its descriptor."""


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
    """Write a file that everybody may read. One that holds other content is never replaced."""
    try:
        try:
            write_whole(path, data, permit=_for_everybody)
        except NoHardLinks:
            if _exists(path):
                raise FileExistsError from None
            write_whole(path, data, replace=True, permit=_for_everybody)
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
    """Put a new file in the place of an open one, with its owner and permissions.

    It is filled under the path and the ending, which nobody else may use. False if the old file
    still has a name: somebody has given it another meanwhile.
    """
    before = os.fstat(old.fileno())
    part = path.with_name(path.name + ending)
    part.unlink(missing_ok=True)
    write_whole(path, data, replace=True, part=part, permit=lambda file: _like(file, before))
    return _nameless(old.fileno(), path.parent)


class NoHardLinks(OSError):
    """The file system cannot give a file its name only if nobody has it."""


def write_whole(
    path: Path,
    data: bytes,
    *,
    replace: bool = False,
    part: Path | None = None,
    permit: Permit | None = None,
) -> None:
    """Fill a file, flush it to disk, and only then give it the path: whoever opens that finds a
    whole file. When this returns, a crash of the system leaves it there.

    replace: whether a file of that name is replaced; if not, it is a FileExistsError. part: the
    name under which it is filled; without one, a name of its own, or none. permit: sets its owner
    and permissions; without one they are those of any new file.
    """
    folder = _opened(path.parent)
    try:
        if replace:
            _rename(path, part or _fresh(path), data, permit)
        else:
            _link_new(path, folder, data, permit)
        os.fsync(folder)
    finally:
        os.close(folder)


def _for_everybody(file: int) -> None:
    os.fchmod(file, 0o644)


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
    state = os.fstat(file)
    if state.st_nlink == 0:
        return True
    with os.scandir(folder) as entries:
        return any(
            entry.name.startswith(".nfs") and entry.inode() == state.st_ino for entry in entries
        )


def _exists(path: Path) -> bool:
    """Whether anything has that name. One that no file can have is an OSError or a ValueError."""
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


def _fresh(path: Path) -> Path:
    """A name in the same folder that nobody has."""
    return path.with_name(f".noisewise-{uuid.uuid4().hex}.part")


def _rename(path: Path, part: Path, data: bytes, permit: Permit | None) -> None:
    try:
        with open(part, "xb") as file:
            _fill(file, data, permit)
        os.replace(part, path)
    except BaseException:  # after the rename the part's name is the next writer's
        with suppress(OSError):
            part.unlink(missing_ok=True)
        raise


def _link_new(path: Path, folder: int, data: bytes, permit: Permit | None) -> None:
    if not _link_nameless(path.name, folder, data, permit):
        _link_named(path, data, permit)


def _link_nameless(name: str, folder: int, data: bytes, permit: Permit | None) -> bool:
    """Fill a file that has no name yet: a process that dies leaves no trace of it. False where the
    system cannot do that.
    """
    try:
        handle = os.open(".", os.O_TMPFILE | os.O_WRONLY, 0o666, dir_fd=folder)
    except (AttributeError, OSError):
        return False
    with os.fdopen(handle, "wb") as file:
        _fill(file, data, permit)
        try:
            os.link(f"/proc/self/fd/{handle}", name, src_dir_fd=folder, dst_dir_fd=folder)
        except FileExistsError:
            raise
        except OSError:  # no /proc
            return False
    return True


def _link_named(path: Path, data: bytes, permit: Permit | None) -> None:
    part = _fresh(path)
    try:
        with open(part, "xb") as file:
            _fill(file, data, permit)
        try:
            os.link(os.fspath(part), path)  # unlike a rename, this fails where the path exists
        except FileExistsError:
            raise
        except OSError:
            raise NoHardLinks from None
    finally:
        with suppress(FileNotFoundError):
            part.unlink()


def _fill(file: BinaryIO, data: bytes, permit: Permit | None) -> None:
    if permit is not None:  # before there is anything to read
        permit(file.fileno())
    file.write(data)
    file.flush()
    os.fsync(file.fileno())
