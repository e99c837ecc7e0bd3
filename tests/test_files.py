"""A file is there whole or not at all, whatever the system can do."""

import errno
import os
import threading
from pathlib import Path

import pytest

from noisewise.errors import OutputError
from noisewise.files import check_writable, write_once, write_whole


@pytest.fixture(params=["as the system can", "no nameless files", "no /proc", "no hard links"])
def system(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    link = os.link

    def only_names(source: str, *words: object, **options: object) -> None:
        if request.param == "no hard links" or source.startswith("/proc"):
            raise OSError
        link(source, *words, **options)  # type: ignore[arg-type]

    if request.param == "no nameless files":
        monkeypatch.delattr(os, "O_TMPFILE", raising=False)
    elif request.param != "as the system can":
        monkeypatch.setattr(os, "link", only_names)
    return str(request.param)


def test_a_file_that_holds_something_else_is_never_replaced(system: str, tmp_path: Path) -> None:
    path = tmp_path / "r.json"
    write_once(path, b"one")
    write_once(path, b"one")
    with pytest.raises(OutputError, match="holds something else"):
        write_once(path, b"two")
    assert path.read_bytes() == b"one"
    assert path.stat().st_mode & 0o777 == 0o644
    assert list(tmp_path.iterdir()) == [path]


def test_a_link_is_not_followed(system: str, tmp_path: Path) -> None:
    (tmp_path / "r.json").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(OutputError, match="exists already"):
        write_once(tmp_path / "r.json", b"one")
    assert not (tmp_path / "elsewhere").exists()


def test_of_many_writers_one_wins(tmp_path: Path) -> None:
    path, lost = tmp_path / "r.json", []

    def write(i: int) -> None:
        try:
            write_once(path, b"%d" % i)
        except OutputError:
            lost.append(i)

    writers = [threading.Thread(target=write, args=(i,)) for i in range(16)]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join()
    assert {*lost, int(path.read_bytes())} == set(range(16))
    assert len(lost) == 15
    assert list(tmp_path.iterdir()) == [path]


def test_a_folder_that_is_not_there_is_refused(system: str, tmp_path: Path) -> None:
    for write in (lambda path: write_once(path, b"one"), lambda path: check_writable(path, 1)):
        with pytest.raises(OutputError, match="cannot write"):
            write(tmp_path / "none" / "r.json")


@pytest.mark.parametrize("name", ["n" * 300, "n\0.json", "\ud800", "pipe/r.json", "r.json/r.json"])
def test_a_name_that_no_file_can_have_is_refused(name: str, tmp_path: Path) -> None:
    """Found before anything is spent, and again when it is written."""
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "r.json").touch()
    with pytest.raises(OutputError, match="cannot write"):
        check_writable(tmp_path / name, 1)
    with pytest.raises(OutputError, match="cannot write"):
        write_once(tmp_path / name, b"one")


@pytest.mark.parametrize("name", ["r.json", "link", "."])
def test_a_name_that_is_taken_is_refused(name: str, tmp_path: Path) -> None:
    (tmp_path / "r.json").touch()
    (tmp_path / "link").symlink_to("nowhere")
    with pytest.raises(OutputError, match="exists already"):
        check_writable(tmp_path / name, 1)


def test_a_file_is_replaced_at_once_by_a_whole_one(tmp_path: Path) -> None:
    path = tmp_path / "r.json"
    for data in (b"one", b"two"):
        write_whole(path, data, replace=True)
        assert path.read_bytes() == data
    with pytest.raises(FileExistsError):
        write_whole(path, b"three")
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("replace", [False, True])
def test_a_write_that_fails_leaves_everything_as_it_was(
    replace: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(_: int) -> None:
        raise OSError

    path = tmp_path / "r.json"
    if replace:
        path.write_bytes(b"one")
    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError):
        write_whole(path, b"two", replace=replace)
    assert [(file.name, file.read_bytes()) for file in tmp_path.iterdir()] == (
        [("r.json", b"one")] if replace else []
    )


def test_the_next_writer_keeps_the_file_that_it_is_filling(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As soon as a file has its name, the next writer may fill another under the same other name.
    It is no longer ours to remove.
    """
    path, part, replace = tmp_path / "b.db", tmp_path / "b.db-next", os.replace

    def then(source: Path, target: Path) -> None:
        replace(source, target)
        part.write_bytes(b"the next writer's")

    monkeypatch.setattr(os, "replace", then)
    write_whole(path, b"ours", replace=True, part=part)
    assert path.read_bytes() == b"ours"
    assert part.read_bytes() == b"the next writer's"


def test_a_file_that_does_not_get_its_name_is_removed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise OSError(errno.EXDEV, "no")

    monkeypatch.setattr(os, "replace", fail)
    with pytest.raises(OSError, match="no"):
        write_whole(tmp_path / "b.db", b"x", replace=True, part=tmp_path / "b.db-next")
    assert os.listdir(tmp_path) == []
