"""Writing a file whole or not at all."""

import os
import tempfile
from pathlib import Path

from noisewise.errors import OutputError


def check_writable(path: Path) -> None:
    """Refuse, before anything is spent, a path that exists or whose folder takes no file."""
    if path.exists() or path.is_symlink():
        raise OutputError(f"{path} exists already, and a release is never overwritten; choose another name.")
    try:
        with tempfile.TemporaryFile(dir=path.parent):
            pass
    except OSError as error:
        raise OutputError(f"cannot write to {path}: {error.strerror}; choose another folder.") from None


def write_once(path: Path, data: bytes) -> None:
    """Write, flush to disk and only then give the file its name. A file that holds other content is never replaced."""
    try:
        _link_new(path, data)
    except FileExistsError:
        try:
            same = path.is_file() and path.read_bytes() == data
        except OSError:
            same = False
        if not same:
            raise OutputError(f"{path} exists already and holds something else; choose another name.") from None
    except OSError as error:
        raise OutputError(f"cannot write {path}: {error.strerror}; choose another folder.") from None


def _link_new(path: Path, data: bytes) -> None:
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.", suffix=".part")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.chmod(name, 0o644)
        os.link(name, path)  # unlike a rename, this fails where the path exists
    finally:
        os.unlink(name)
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)
