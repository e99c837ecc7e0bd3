"""The release: the one thing that crosses from the curator to the analyst. Strict, versioned,
self-describing JSON.
"""

import hashlib
import json
import math
import os
import re
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
from pydantic import BaseModel, ConfigDict, ValidationError

from noisewise.errors import NoisewiseError, ReleaseFormatError, UnsupportedCombination
from noisewise.files import write_once
from noisewise.mechanism import noise as noises
from noisewise.mechanism.noise import DiscreteGaussian, DiscreteLaplace, Noise
from noisewise.mechanism.privacy import (
    DIGITS,
    Cost,
    Currency,
    compose,
    exact_delta,
    exact_epsilon,
    implied_epsilon,
)
from noisewise.model import families
from noisewise.model.bounds import Bounds, Outside
from noisewise.model.families import Family

FORMAT = "noisewise-release"
VERSION = 2
"""Version 1 knew pure epsilon and a public n alone; it is still read."""
MAX_BYTES = 64 * 2**20
Coordinates = Literal["plain", "standardised"]


NEIGHBOURS = ("replace_one", "add_remove")
MOST_RECORDS = 10**6
"""Of one person."""
WHERE = {None: "", "public": ", within its group", "released": ", of whatever group"}
"""What the unit of privacy says further where the sizes of groups are public, or released with
noise.
"""
_SPEND = "[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"


def person(records: int) -> str:
    """The unit of privacy, for so many records of one person."""
    return "one record" if records == 1 else f"one person with at most {records} records"


def _cost(currency: Currency, amount: str) -> Cost:
    return Cost(currency, exact_epsilon(amount, currency, digits=4 * DIGITS))


@dataclass(frozen=True, slots=True)
class Privacy:
    """What the release cost and whom it protects. Costs are decimal text, exact: of the statistic,
    and in total.

    With Laplace noise they are epsilon and total_epsilon; with normal noise rho and total_rho
    (zCDP), and epsilon and delta where rho was derived from them.
    """

    epsilon: str | None
    total_epsilon: str | None
    neighbours: str
    records_per_person: int
    unit: str
    sensitivity: tuple[float, ...]
    """How far one such unit can move the statistics together, in the units of each."""
    bounds_epsilon: str | None = None
    quantiles: tuple[float, float] | None = None
    spend: str | None = None
    delta: str | None = None
    rho: str | None = None
    total_rho: str | None = None
    count_sensitivity: float | None = None
    """How far such a unit can move the count, and the statistics as much again."""

    def __post_init__(self) -> None:
        own = self.cost
        bounds = (
            None
            if self.bounds_epsilon is None
            else _cost("epsilon", self.bounds_epsilon).counted_in(own.currency)
        )
        total = self.total_epsilon if own.currency == "epsilon" else self.total_rho
        if total is None or _cost(own.currency, total).amount != (
            own.amount if bounds is None else compose(own.amount, bounds)
        ):
            raise ValueError(
                f"total_{own.currency} must be the sum of the statistic's cost and "
                "that of private bounds."
            )
        if self.neighbours not in NEIGHBOURS:
            raise ValueError(f"neighbours must be one of: {', '.join(NEIGHBOURS)}.")
        if (
            isinstance(self.records_per_person, bool)
            or not 1 <= self.records_per_person <= MOST_RECORDS
        ):
            raise ValueError(f"records_per_person must be a whole number from 1 to {MOST_RECORDS}.")
        if self.unit not in [self.person + where for where in WHERE.values()]:
            raise ValueError(
                f"unit must be {self.person!r}, and with groups where in them: the unit of privacy "
                "is that of the rest."
            )
        moved = (
            *self.sensitivity,
            *(() if self.count_sensitivity is None else (self.count_sensitivity,)),
        )
        if not self.sensitivity or not all(0 < value < math.inf for value in moved):
            raise ValueError("sensitivity and count_sensitivity must be positive.")
        if (self.quantiles is None) != (self.bounds_epsilon is None):
            raise ValueError("private bounds have bounds_epsilon and quantiles.")
        if self.quantiles is not None and not (
            len(self.quantiles) == 2 and 0 <= self.quantiles[0] < self.quantiles[1] <= 1
        ):
            raise ValueError("quantiles must be two increasing numbers from 0 to 1.")
        if self.spend is not None and re.fullmatch(_SPEND, self.spend) is None:
            raise ValueError("spend must be the id that a ledger gave.")

    @property
    def cost(self) -> Cost:
        """Of the statistic by itself."""
        if self.total_rho is None:
            if self.epsilon is None or self.rho is not None or self.delta is not None:
                raise ValueError(
                    "a release that costs total_epsilon has an epsilon, and neither rho nor delta."
                )
            return _cost("epsilon", self.epsilon)
        if (
            self.rho is None
            or self.total_epsilon is not None
            or (self.epsilon is None) != (self.delta is None)
        ):
            raise ValueError(
                "a release costs rho and total_rho, derived from epsilon and delta or not, or "
                "epsilon and total_epsilon."
            )
        own = _cost("rho", self.rho)
        if self.epsilon is not None and self.delta is not None:
            epsilon = exact_epsilon(self.epsilon)
            if not math.isclose(
                implied_epsilon(own.amount, exact_delta(self.delta)), epsilon, rel_tol=1e-4
            ):
                raise ValueError("rho is not the one that epsilon and delta allow.")
        return own

    @property
    def person(self) -> str:
        """Whose records count as one."""
        return person(self.records_per_person)


@dataclass(frozen=True, slots=True)
class NoisyCount:
    """How many records there are, plus noise, where their number is not public."""

    value: float
    noise: Noise

    def __post_init__(self) -> None:
        if (
            isinstance(self.value, bool)
            or not isinstance(self.value, (int, float))
            or not math.isfinite(self.value)
        ):
            raise ValueError("the noisy count must be a finite number.")
        if not isinstance(self.noise, Noise):
            raise ValueError("the noise of a count must be a noise, such as noise.Laplace(2).")
        object.__setattr__(self, "value", float(self.value))
        object.__setattr__(self, "noise", self.noise.broadcast(1))


@dataclass(frozen=True, slots=True)
class Release:
    """A noisy statistic and everything public that is needed to interpret it.

    statistic = (sum of t^(x) over n records) + noise, in plain coordinates (the family's t) or
    standardised ones (u = (x - centre)/radius of the bounds). Where n is not public it is None, and
    count is its noisy value; a categorical's noisy counts need none.
    """

    family: Family
    n: int | None
    statistic: tuple[float, ...]
    noise: Noise
    bounds: Bounds | None = None
    coordinates: Coordinates = "plain"
    dataset: str | None = None
    column: str | None = None
    description: str | None = None
    privacy: Privacy | None = None
    notes: tuple[str, ...] = ()
    count: NoisyCount | None = None
    group: tuple[str, str] | None = None
    """The column by which the records were grouped, and this group's name."""

    def __post_init__(self) -> None:
        if not isinstance(self.family, Family):
            raise ValueError("family must be a family, such as families.Exponential().")
        if self.n is None:
            if (self.count is None) != isinstance(self.family, families.Categorical):
                raise ValueError(
                    "where n is not public, give count, the noisy number of records (none for the "
                    "categorical family)."
                )
        elif self.count is not None:
            raise ValueError("n is public or it is not; give n or count, not both.")
        elif isinstance(self.n, bool) or not isinstance(self.n, int) or not 0 <= self.n < 2**63:
            raise ValueError(
                f"n must be a whole number from 0, got {self.n}; it is the public "
                "number of records."
            )
        d = self.family.dimension
        values = tuple(float(value) for value in self.statistic)
        if len(values) != d:
            raise ValueError(
                f"statistic has {len(values)} numbers, the {self.family.kind} family "
                f"has {d}; give one for each."
            )
        if not all(math.isfinite(value) for value in values):
            raise ValueError("statistic must be finite numbers.")
        object.__setattr__(self, "statistic", values)
        object.__setattr__(self, "noise", self.noise.broadcast(d))
        self.family.check_bounds(self.bounds)
        if self.coordinates not in ("plain", "standardised"):
            raise ValueError(
                f"coordinates must be 'plain' or 'standardised', got {self.coordinates!r}."
            )
        if self.coordinates == "standardised" and not self.family.polynomial:
            raise ValueError(
                f"the {self.family.kind} family is released in plain coordinates; "
                "standardised does not apply."
            )

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the release as JSON, whole or not at all. A file that holds something else is never
        overwritten.
        """
        write_once(Path(path), self.to_json().encode())

    def to_json(self, indent: int | None = 2) -> str:
        """The release as JSON text that a person can read; indent=None gives one line, for files of
        many.
        """
        content: dict[str, Any] = {
            "format": FORMAT,
            "version": VERSION,
            "family": self.family.describe(),
            "n": self.n,
            "count": None
            if self.count is None
            else {"value": self.count.value, "noise": _described(self.count.noise)},
            "bounds": None if self.bounds is None else asdict(self.bounds),
            "coordinates": self.coordinates,
            "statistic": list(self.statistic),
            "noise": _described(self.noise),
            "dataset": self.dataset,
            "column": self.column,
            "group": None if self.group is None else {"by": self.group[0], "name": self.group[1]},
            "description": self.description,
            "privacy": None if self.privacy is None else asdict(self.privacy),
            "notes": list(self.notes),
        }
        # tuples become lists, as a reader will see them
        content = json.loads(json.dumps(content, allow_nan=False))
        return (
            json.dumps(
                content | {"sha256": _digest(content)},
                indent=indent,
                ensure_ascii=False,
                allow_nan=False,
            )
            + "\n"
        )


def _described(noise: Noise) -> dict[str, Any]:
    return {"kind": noise.kind, **asdict(noise)}  # type: ignore[call-overload]


def rehearse_file(blank: Release) -> int:
    """Refuse, before anything is spent, a release that a file cannot hold. Returns its size at
    most, but for texts.
    """
    try:
        data = blank.to_json().encode()
        if len(data) < MAX_BYTES // 2 and parse(data) == blank:
            return 2 * len(data) + 2**12
    except (TypeError, ValueError, AttributeError, RecursionError):
        pass
    raise UnsupportedCombination(
        f"the {blank.family.kind} family cannot be written to a file and read back: its fields "
        "must be the arguments that make it, "
        "plain numbers, text or lists of them, and of moderate size."
    )


@np.errstate(all="ignore")
def _check_curated(release: Release, privacy: Privacy) -> None:
    """Refuse what no curator's release can be: its parts tell of one another."""
    cost, k = privacy.cost, privacy.records_per_person
    gaussian = cost.currency == "rho"
    laws = [(release.noise, privacy.sensitivity)]
    if (release.count is None) != (privacy.count_sensitivity is None):
        raise ValueError("a noisy count has a count_sensitivity.")
    if release.count is not None and privacy.count_sensitivity is not None:
        laws.append((release.count.noise, (privacy.count_sensitivity,)))
    steps = []
    for law, sensitivity in laws:
        if not isinstance(law, DiscreteGaussian if gaussian else DiscreteLaplace):
            raise ValueError(
                f"a cost in {cost.currency} goes with "
                f"{'discrete_gaussian' if gaussian else 'discrete_laplace'} noise."
            )
        scales, ranges = law.scales, np.array(sensitivity)
        if scales.shape != ranges.shape:
            raise ValueError("sensitivity must have one number for each statistic.")
        spent = (ranges / scales) ** 2 / 2 if gaussian else ranges / scales
        if not np.allclose(spent, float(cost.amount), rtol=1e-9, atol=0):
            raise ValueError(
                f"the noise is not the one that {cost} needs for the declared sensitivity."
            )
        steps += list(ranges / law.steps)
    if not np.allclose(steps, steps[0], rtol=1e-9, atol=0) or (not gaussian and steps[0] % k != 0):
        raise ValueError(
            "the sensitivity must be the same whole number of lattice steps for all statistics."
        )
    if steps[0] < 1 - 1e-9 or not all(
        math.frexp(step)[0] == 0.5 for step in release.noise.steps.tolist()
    ):
        raise ValueError(
            "a lattice step is a power of two, and a record moves a statistic by one at least."
        )
    if not all(
        value / step % 1 == 0
        for value, step in zip(release.statistic, release.noise.steps.tolist(), strict=True)
    ):
        raise ValueError("a statistic is no whole number of lattice steps.")
    sizes = None if release.group is None else "released" if release.n is None else "public"
    if privacy.unit != privacy.person + WHERE[sizes]:
        raise ValueError("the unit of privacy does not fit the group and n.")
    if (release.n is None) != (privacy.neighbours == "add_remove" or sizes == "released"):
        raise ValueError(
            "n is public where neighbours replace one record (within its group), and nowhere else."
        )
    if release.n is None:
        # A record that is added or removed moves its own group alone; one that may change groups
        # moves two of them.
        reach = (steps[0] if privacy.count_sensitivity is None else privacy.count_sensitivity) / k
        alone = 1.0 if privacy.count_sensitivity is None else math.sqrt(2) if gaussian else 2.0
        if (reach > alone * (1 + 1e-9)) != (privacy.neighbours == "replace_one"):
            raise ValueError("the sensitivity is not that of these neighbours.")
    if (release.coordinates == "standardised") != release.family.polynomial:
        raise ValueError("the coordinates are not those in which the family is released.")
    if privacy.bounds_epsilon is not None and (release.bounds is None or release.group is not None):
        raise ValueError("private bounds go with bounds, and not with groups.")
    if release.column is None or (privacy.spend is not None and release.dataset is None):
        raise ValueError("a release is of a column, and a spend is of a dataset.")


def observe(
    *,
    family: Family,
    n: int | None = None,
    count: NoisyCount | None = None,
    statistic: Sequence[float] | float,
    noise: Noise,
    bounds: Bounds | None = None,
    coordinates: Coordinates = "plain",
    dataset: str | None = None,
) -> Release:
    """A release made of a noisy statistic that some other tool published; its privacy cost is not
    known here.

    n is the public number of records; where it is not public, count=NoisyCount(value, noise) stands
    in its place.
    """
    values = tuple(statistic) if isinstance(statistic, (Sequence, np.ndarray)) else (statistic,)
    return Release(family, n, values, noise, bounds, coordinates, dataset, count=count)


def load(path: str | os.PathLike[str]) -> Release:
    """Read a release and check it: format, version, every field, every value, and the checksum."""
    try:
        with open(path, "rb") as file:
            data = file.read(MAX_BYTES + 1)
    except (OSError, ValueError) as error:  # a name with a null byte is a ValueError
        raise ReleaseFormatError(
            f"cannot read {path!r}: {getattr(error, 'strerror', None) or 'no such name'}."
        ) from None
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
                        f"{path}: line {number} is larger than "
                        f"{MAX_BYTES >> 20} MiB and no release."
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
        raise ReleaseFormatError(
            f"cannot read {path!r}: {getattr(error, 'strerror', None) or 'no such name'}."
        ) from None
    if not releases:
        raise ReleaseFormatError(f"{path} holds no release; make one with `noisewise release`.")
    return releases


def parse(data: bytes | str) -> Release:
    """A release from its JSON text."""
    content = _strict_json(data)
    if not isinstance(content, dict) or content.get("format") != FORMAT:
        raise ReleaseFormatError(
            "this is not a noisewise release; make one with `noisewise release`."
        )
    if content.get("version") not in (1, VERSION):
        version = str(content.get("version"))[:20]
        raise ReleaseFormatError(
            f"release format {version} is not known here, only 1 to {VERSION}; update noisewise."
        )
    try:
        wire = _Wire.model_validate(content)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        where = ".".join(str(part) for part in first["loc"])
        raise ReleaseFormatError(
            f"field {where}: {first['msg']}. Ask the curator for the original file."
        ) from None
    try:
        release = _build(wire)
        if release.privacy is not None:
            _check_curated(release, release.privacy)
    except ReleaseFormatError:
        raise
    except (NoisewiseError, ValueError, TypeError) as error:
        raise ReleaseFormatError(f"{error} Ask the curator for the original file.") from None
    if wire.sha256 != _digest({key: value for key, value in content.items() if key != "sha256"}):
        raise ReleaseFormatError(
            "the checksum does not match: the file was cut or edited. Ask the "
            "curator for the original."
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
    """The shape of the file; the meaning is checked by the objects built from it."""

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


def _build(wire: _Wire) -> Release:
    fields = dict(wire.family)
    kind = fields.pop("kind", None)
    if kind not in families.REGISTRY:
        raise ReleaseFormatError(
            f"family kind {kind!r} is not known here; if it is a family of "
            "your own, import its module first."
        )
    privacy = None
    if wire.privacy is not None:
        held = wire.privacy.model_dump().items()
        known: dict[str, Any] = {
            name: tuple(value) if isinstance(value, list) else value for name, value in held
        }
        privacy = Privacy(**known)
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


def _digest(content: dict[str, Any]) -> str:
    canonical = json.dumps(content, sort_keys=True, separators=(",", ":"), allow_nan=False)
    return hashlib.sha256(canonical.encode()).hexdigest()


def _strict_json(data: bytes | str) -> Any:
    """JSON without duplicate keys, NaN, infinities or numbers beyond 64-bit floats."""

    def once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        found = dict(pairs)
        if len(found) < len(pairs):
            raise ReleaseFormatError(
                "a key stands twice in the file; ask the curator for the original."
            )
        return found

    def number(text: str) -> float:
        value = float(text)
        if not math.isfinite(value):
            raise ReleaseFormatError(
                "a number in the file is not finite; ask the curator for the original."
            )
        return value

    def whole(text: str) -> int:
        if len(text) > 30:
            raise ReleaseFormatError(
                "a whole number in the file is too long; ask the curator for the original."
            )
        return int(text)

    try:
        return json.loads(
            data, object_pairs_hook=once, parse_float=number, parse_int=whole, parse_constant=number
        )
    except (json.JSONDecodeError, UnicodeDecodeError, RecursionError):
        raise ReleaseFormatError(
            "this is not JSON, or a cut file; ask the curator for the original."
        ) from None
