"""Long runs: fixed chunks with seeds of their own, done on any number of workers, kept as they
finish, never done twice.

A chunk's result depends on its key and the study's seed alone, so the same numbers come out of one
worker or a cluster. Only the process that the user started writes files; workers need no common
disk.
"""

import hashlib
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np

from noisewise.errors import NoisewiseError, OutputError
from noisewise.files import write_whole

Result = dict[str, list[float]]
FORMAT = 2
"""Grows when the same study would give other numbers."""


@dataclass(frozen=True)
class Chunk:
    """A piece of work: a function of a generator, and a text that names it among all others."""

    key: str
    work: Callable[..., Mapping[str, Any]]
    arguments: tuple[Any, ...]

    @property
    def file(self) -> str:
        """Where its result is kept."""
        return hashlib.sha256(self.key.encode()).hexdigest()[:24] + ".json"


def run(
    chunks: Sequence[Chunk],
    folder: Path,
    seed: int,
    jobs: int = 1,
    dask: str | None = None,
    report: Callable[[Chunk, Result], None] | None = None,
) -> dict[str, Result]:
    """Every chunk's result by its key; those that `folder` holds already are read, not done."""
    if jobs < 1:
        raise NoisewiseError(f"jobs must be at least 1, got {jobs}.")
    done: dict[str, Result] = {}
    held = folder / "chunks"
    held.mkdir(exist_ok=True)
    todo = []
    for chunk in chunks:
        found = _read(held / chunk.file)
        if found is None:
            todo.append(chunk)
        else:
            done[chunk.key] = found
            if report is not None:
                report(chunk, found)
    if todo:
        for index, result in _parallel(todo, seed, jobs, dask):
            chunk = todo[index]
            _write(held / chunk.file, json.dumps(result))
            done[chunk.key] = result
            if report is not None:
                report(chunk, result)
    return done


def claim(folder: Path, content: Mapping[str, Any]) -> None:
    """Make the folder this study's, or refuse it if it holds another."""
    held = {"noisewise": version("noisewise"), "format": FORMAT} | dict(content)
    text = json.dumps(held, indent=2, sort_keys=True, default=str) + "\n"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        file = folder / "study.json"
        if file.exists():
            if file.read_text() != text:
                raise OutputError(
                    f"{folder} holds another study, or one of another version of noisewise; choose "
                    "another folder, or repeat "
                    "that one's settings to go on."
                )
        elif any(not found.name.startswith(".study.json.") for found in folder.iterdir()):
            raise OutputError(f"{folder} is not empty and holds no study; choose another folder.")
        else:
            _write(file, text)
    except OSError as error:
        raise OutputError(
            f"cannot write to {folder}: {error.strerror}; choose another place."
        ) from None


def _parallel(
    todo: Sequence[Chunk], seed: int, jobs: int, dask: str | None
) -> Iterator[tuple[int, Result]]:
    import joblib

    work = [joblib.delayed(_do)(index, chunk, seed) for index, chunk in enumerate(todo)]
    with _backend(jobs, dask) as options:
        yield from joblib.Parallel(
            return_as="generator_unordered", pre_dispatch="all" if dask else "3*n_jobs", **options
        )(work)


@contextmanager
def _backend(jobs: int, dask: str | None) -> Iterator[dict[str, Any]]:
    import joblib

    if dask is None:
        yield {"n_jobs": jobs, "batch_size": 1}
        return
    try:
        from distributed import Client
    except ImportError:
        raise NoisewiseError("--dask needs the extra: pip install 'noisewise[dask]'.") from None
    try:
        client = Client(dask, timeout=5)
    except (OSError, ValueError, TimeoutError):
        raise NoisewiseError(
            f"no Dask scheduler answers at {dask}; start one, or leave --dask out."
        ) from None
    with client, joblib.parallel_config(backend="dask"):
        yield {"n_jobs": -1}


def _do(index: int, chunk: Chunk, seed: int) -> tuple[int, Result]:
    from threadpoolctl import threadpool_limits

    words = np.frombuffer(hashlib.sha256(f"{seed} {chunk.key}".encode()).digest(), dtype=np.uint32)
    rng = np.random.default_rng([int(word) for word in words])
    with threadpool_limits(1):
        found = chunk.work(*chunk.arguments, rng)
    return index, {name: np.asarray(values, dtype=float).tolist() for name, values in found.items()}


def _read(file: Path) -> Result | None:
    try:
        held: Result = json.loads(file.read_text())
    except FileNotFoundError:
        return None
    except ValueError:
        raise OutputError(
            f"{file} was cut or edited; delete it, and it will be done again."
        ) from None
    return held


def _write(file: Path, text: str) -> None:
    try:
        write_whole(file, text.encode(), replace=True)
    except OSError as error:
        raise OutputError(
            f"cannot write {file}: {error.strerror}; make room, and give the command "
            "again to go on."
        ) from None
