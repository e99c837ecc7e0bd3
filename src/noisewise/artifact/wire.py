"""A release as strict, versioned, self-describing JSON, and back.

A reader must understand every version that was ever written; only the newest is written. Each has a
model of its shape in READERS; what the fields mean, and whether they fit together, is checked by
the objects that are built from them.
"""

import json
import os
from dataclasses import asdict
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, ValidationError

from noisewise.artifact.json_text import digest, strict_json
from noisewise.artifact.privacy import Privacy, check_curated
from noisewise.artifact.release import NoisyCount, Release
from noisewise.errors import NoisewiseError, ReleaseFormatError, UnsupportedCombination
from noisewise.mechanism import noise as noises
from noisewise.mechanism.lattice import Coordinates
from noisewise.mechanism.noise import Noise
from noisewise.model import families
from noisewise.model.bounds import Bounds, Outside

FORMAT = "noisewise-release"
"""How a file says what it is."""
VERSION = 3
"""What is written."""
SEVERAL = 3
"""Families of several columns came with this version."""
MAX_BYTES = 64 * 2**20
"""A file of more is no release, and is not read into memory to find that out."""
_ROOM = 2**12
"""Bytes of room for the digits that noise adds to a small release; a large one has twice its size
anyway.
"""


def to_json(release: Release, indent: int | None) -> str:
    """The release as JSON text, with its checksum."""
    content = _as_read(release)
    content["sha256"] = digest(content)
    return json.dumps(content, indent=indent, ensure_ascii=False, allow_nan=False) + "\n"


def checksum(release: Release) -> str:
    """That of the file that the release is written to."""
    return digest(_as_read(release))


def _as_read(release: Release) -> dict[str, Any]:
    """The fields as a reader will see them: tuples become lists."""
    content: dict[str, Any] = json.loads(json.dumps(_content(release), allow_nan=False))
    return content


def _content(release: Release) -> dict[str, Any]:
    """The fields of the newest version, in the order in which a person reads them."""
    count, group = release.count, release.group
    return {
        "format": FORMAT,
        "version": VERSION,
        "family": release.family.describe(),
        "n": release.n,
        "count": None
        if count is None
        else {"value": count.value, "noise": _described(count.noise)},
        "bounds": None if release.bounds is None else asdict(release.bounds),
        "coordinates": release.coordinates,
        "statistic": list(release.statistic),
        "noise": _described(release.noise),
        "dataset": release.dataset,
        "column": release.column,
        "group": None if group is None else {"by": group[0], "name": group[1]},
        "description": release.description,
        "privacy": None if release.privacy is None else asdict(release.privacy),
        "notes": list(release.notes),
    }


def _described(noise: Noise) -> dict[str, Any]:
    return {"kind": noise.kind, **asdict(noise)}  # type: ignore[call-overload]


def rehearse_file(blank: Release) -> int:
    """Refuse, before anything is spent, a release that a file cannot hold. Returns how many bytes
    it takes at most.
    """
    try:
        data = blank.to_json().encode()
        if len(data) < MAX_BYTES // 2 and parse(data) == blank:
            return 2 * len(data) + _ROOM
    except (TypeError, ValueError, AttributeError, RecursionError):
        pass
    raise UnsupportedCombination(
        f"the {blank.family.kind} family cannot be written to a file and read back: its fields "
        "must be the arguments that make it, plain numbers, text or lists of them, and of moderate "
        "size."
    )


def _unreadable(path: str | os.PathLike[str], error: Exception) -> ReleaseFormatError:
    why = getattr(error, "strerror", None) or "no such name"
    return ReleaseFormatError(f"cannot read {os.fspath(path)!r}: {why}.")


def load(path: str | os.PathLike[str]) -> Release:
    """Read a release and check it: format, version, every field, every value, and the checksum."""
    try:
        with open(path, "rb") as file:
            data = file.read(MAX_BYTES + 1)
    except (OSError, ValueError) as error:  # a name with a null byte is a ValueError
        raise _unreadable(path, error) from None
    if len(data) > MAX_BYTES:
        raise ReleaseFormatError(
            f"{path} is larger than {MAX_BYTES >> 20} MiB and no release; check the path."
        )
    try:
        return parse(data)
    except ReleaseFormatError as error:
        raise ReleaseFormatError(f"{path}: {error}") from None


def load_many(path: str | os.PathLike[str]) -> list[Release]:
    """Read many releases: a file with one release on each line (.jsonl), or a folder of .json files
    in the order of names.
    """
    where = Path(path)
    if where.is_dir():
        files = sorted(
            file for file in where.iterdir() if file.suffix == ".json" and file.is_file()
        )
        if not files:
            raise ReleaseFormatError(f"{path} holds no .json files; give a folder of releases.")
        return [load(file) for file in files]
    releases = []
    try:
        with open(where, "rb") as file:
            for number, line in enumerate(iter(lambda: file.readline(MAX_BYTES + 1), b""), 1):
                if len(line) > MAX_BYTES:
                    raise ReleaseFormatError(
                        f"{path}: line {number} is larger than {MAX_BYTES >> 20} MiB and no "
                        "release."
                    )
                if not line.strip():
                    continue
                try:
                    releases.append(parse(line))
                except ReleaseFormatError as error:
                    raise ReleaseFormatError(f"{path}, line {number}: {error}") from None
    except (OSError, ValueError) as error:
        if isinstance(error, ReleaseFormatError):
            raise
        raise _unreadable(path, error) from None
    if not releases:
        raise ReleaseFormatError(f"{path} holds no release; make one with `noisewise release`.")
    return releases


def parse(data: bytes | str) -> Release:
    """A release from its JSON text."""
    content = strict_json(data)
    if not isinstance(content, dict) or content.get("format") != FORMAT:
        raise ReleaseFormatError(
            "this is not a noisewise release; make one with `noisewise release`."
        )
    version = content.get("version")
    if version not in tuple(READERS):
        raise ReleaseFormatError(
            f"release format {str(version)[:20]} is not known here, only 1 to {VERSION}; update "
            "noisewise."
        )
    try:
        wire = READERS[version].model_validate(content)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        where = ".".join(str(part) for part in first["loc"])
        raise ReleaseFormatError(
            f"field {where}: {first['msg']}. Ask the curator for the original file."
        ) from None
    try:
        release = _build(wire)
        if version < SEVERAL and not release.family.complete:
            raise ReleaseFormatError(f"several columns came with version {SEVERAL} of the format.")
        if release.privacy is not None:
            check_curated(release, release.privacy)
    except ReleaseFormatError:
        raise
    except (NoisewiseError, ValueError, TypeError) as error:
        raise ReleaseFormatError(f"{error} Ask the curator for the original file.") from None
    if wire.sha256 != digest({key: value for key, value in content.items() if key != "sha256"}):
        raise ReleaseFormatError(
            "the checksum does not match: the file was cut or edited. Ask the curator for the "
            "original."
        )
    return release


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True, frozen=True, allow_inf_nan=False)


class _Bounds(_Strict):
    lower: float
    upper: float
    outside: Outside


class _Noise(_Strict):
    kind: str
    scale: list[float]
    step: list[float] | None = None


class _Privacy(_Strict):
    epsilon: str | None
    total_epsilon: str | None
    neighbours: str
    records_per_person: int
    unit: str
    sensitivity: list[float]
    bounds_epsilon: str | None
    quantiles: list[float] | None
    spend: str | None
    delta: str | None = None
    rho: str | None = None
    total_rho: str | None = None
    count_sensitivity: float | None = None


class _Count(_Strict):
    value: float
    noise: _Noise


class _Group(_Strict):
    by: str
    name: str


class _Wire(_Strict):
    """The shape of versions 1 to 3. Version 1 knew pure epsilon, a public n and no groups; what
    came with version 2 may be left out. Version 3 has families of several columns, with both n and
    a count.
    """

    format: str
    version: int
    family: dict[str, Any]
    n: int | None
    count: _Count | None = None
    bounds: _Bounds | None
    coordinates: Coordinates
    statistic: list[float]
    noise: _Noise
    dataset: str | None
    column: str | None
    group: _Group | None = None
    description: str | None
    privacy: _Privacy | None
    notes: list[str]
    sha256: str


READERS: dict[int, type[_Wire]] = {1: _Wire, 2: _Wire, 3: _Wire}
"""The shape of each version that is read."""


def _build(wire: _Wire) -> Release:
    fields = dict(wire.family)
    kind = fields.pop("kind", None)
    if kind not in families.REGISTRY:
        raise ReleaseFormatError(
            f"family kind {kind!r} is not known here; if it is a family of your own, import its "
            "module first."
        )
    privacy = None
    if wire.privacy is not None:
        parts: dict[str, Any] = {
            name: tuple(value) if isinstance(value, list) else value
            for name, value in wire.privacy.model_dump().items()
        }
        privacy = Privacy(**parts)
    return Release(
        family=families.REGISTRY[kind](**fields),
        n=wire.n,
        statistic=tuple(wire.statistic),
        noise=_noise(wire.noise),
        bounds=None if wire.bounds is None else Bounds(**wire.bounds.model_dump()),
        coordinates=wire.coordinates,
        dataset=wire.dataset,
        column=wire.column,
        description=wire.description,
        privacy=privacy,
        notes=tuple(wire.notes),
        group=None if wire.group is None else (wire.group.by, wire.group.name),
        count=None
        if wire.count is None
        else NoisyCount(wire.count.value, _noise(wire.count.noise)),
    )


def _noise(wire: _Noise) -> Noise:
    if wire.kind not in noises.REGISTRY:
        raise ReleaseFormatError(
            f"noise kind {wire.kind!r} is not known; known are {', '.join(noises.REGISTRY)}."
        )
    return noises.REGISTRY[wire.kind](**wire.model_dump(exclude={"kind"}, exclude_none=True))
