"""What a person filled in: texts, checked as far as a text tells, and the command that says the
same.
"""

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field, fields
from typing import Any, Self, final

from noisewise.errors import NoisewiseError
from noisewise.studio.commands import option
from noisewise.studio.folder import Folder

LONGEST = 4000
"""Letters of one field."""


class Unfilled(ValueError):
    """What is wrong, by the names of the fields."""

    def __init__(self, errors: Mapping[str, str]) -> None:
        super().__init__("; ".join(errors.values()))
        self.errors = dict(errors)


class Form:
    """Fields of text."""

    @classmethod
    def of(cls, given: Mapping[str, Any]) -> Self:
        """From what a browser sent; what it left out is empty, or as it was to begin with."""
        known = {
            one.name: str(given[one.name]).strip()[:LONGEST]
            for one in fields(cls)  # type: ignore[arg-type]
            if isinstance(given.get(one.name), str)
        }
        return cls(**known)

    def values(self) -> dict[str, str]:
        """By name."""
        return asdict(self)  # type: ignore[call-overload, no-any-return]


@dataclass
class Wrong:
    """Errors by field, as they are found."""

    errors: dict[str, str] = field(default_factory=dict)

    def need(self, name: str, given: str, words: str) -> None:
        if not given:
            self.errors[name] = words

    def ask(self, name: str, check: Callable[[], object]) -> None:
        try:
            check()
        except NoisewiseError as error:
            self.errors.setdefault(name, _sentence(str(error)))

    def finish(self, form: Form) -> None:
        """Say all of them, in the order of the page."""
        if self.errors:
            names = [name for name in form.values() if name in self.errors]
            raise Unfilled({name: self.errors[name] for name in names})


def _sentence(words: str) -> str:
    return words[:1].upper() + words[1:]


@final
@dataclass(frozen=True, slots=True)
class ReleaseForm(Form):
    """A release: of one column and a family, of several columns' moments, or of a table."""

    file: str = ""
    kind: str = "one"
    column: str = ""
    family: str = ""
    written: str = ""
    lower: str = ""
    upper: str = ""
    outside: str = ""
    missing: str = ""
    moments: str = ""
    table: str = ""
    epsilon: str = ""
    delta: str = ""
    rho: str = ""
    records_per_person: str = "1"
    person: str = ""
    neighbours: str = "replace_one"
    description: str = ""
    ledger: str = ""
    dataset: str = ""
    out: str = ""

    def check(self, folder: Folder) -> None:
        """Whether every field says something; the rest is for the curator to find."""
        wrong = Wrong()
        wrong.need("file", self.file, "Choose the table of records.")
        wrong.need("ledger", self.ledger, "Choose the ledger that pays; the Ledger page makes one.")
        wrong.need("dataset", self.dataset, "Say the dataset's name in the ledger.")
        wrong.need("out", self.out, "Say what the release's file is called: wait.release.json.")
        if not (self.epsilon or self.rho):
            wrong.errors["epsilon"] = (
                "Say what it may cost, such as 0.5; or a \N{GREEK SMALL LETTER RHO} below."
            )
        if self.kind == "one":
            wrong.need("column", self.column, "Say which column, as the table's first line has it.")
            wrong.need("family", self.model, "Choose a model of the column.")
            if bool(self.lower) != bool(self.upper):
                wrong.errors["lower"] = "Say both bounds, or neither."
            elif self.lower:
                wrong.need("outside", self.outside, "Say what becomes of records outside.")
        elif self.kind == "moments":
            wrong.need("moments", self.moments, "Say which columns: bp:60:220 age:0:100.")
        else:
            wrong.need("table", self.table, "Say which columns: sex:f,m age:0:18:65:100.")
        if self.out and not self.out.endswith(".json"):
            wrong.errors["out"] = "A release's file ends in .json."
        if self.file:
            wrong.ask("file", lambda: folder.existing(self.file, "table"))
        if self.ledger:
            wrong.ask("ledger", lambda: folder.existing(self.ledger, "ledger"))
        if self.out and "out" not in wrong.errors:
            wrong.ask("out", lambda: folder.inside(self.out, "release"))
        wrong.finish(self)

    @property
    def model(self) -> str:
        """The family: chosen, or written out."""
        return self.written or self.family

    @property
    def bounded(self) -> bool:
        return self.kind == "one" and bool(self.lower)

    def words(self, *, dry: bool) -> list[str]:
        """Of the command line."""
        one = self.kind == "one"
        what = (
            [*option("--column", self.column), *option("--family", self.model)]
            if one
            else [
                f"--{self.kind}",
                *(self.moments if self.kind == "moments" else self.table).split(),
            ]
        )
        return [
            "release",
            self.file,
            *what,
            *(option("--bounds", self.lower, self.upper) if one else []),
            *(option("--outside", self.outside) if self.bounded else []),
            *(option("--missing", self.missing) if one else []),
            *option("--epsilon", self.epsilon),
            *option("--delta", self.delta),
            *option("--rho", self.rho),
            *option("--person", self.person),
            *(
                option("--records-per-person", self.records_per_person)
                if self.records_per_person != "1"
                else []
            ),
            *(option("--neighbours", self.neighbours) if self.neighbours != "replace_one" else []),
            *option("--description", self.description),
            *option("--ledger", self.ledger),
            *option("--dataset", self.dataset),
            *option("--out", self.out),
            *(["--dry-run"] if dry else []),
        ]


@final
@dataclass(frozen=True, slots=True)
class PosteriorForm(Form):
    """What to read out of a release."""

    release: str = ""
    prior: str = "weak"
    unit: str = ""
    outcome: str = ""
    on: str = ""

    def check(self, folder: Folder) -> None:
        wrong = Wrong()
        wrong.need("release", self.release, "Choose a release, or add one below.")
        wrong.need("prior", self.prior, "Say the prior, or weak.")
        if self.on and not self.outcome:
            wrong.errors["outcome"] = "Say the outcome, too; or leave the covariates empty."
        if self.release:
            wrong.ask("release", lambda: folder.existing(self.release, "release"))
        wrong.finish(self)

    def words(self) -> list[str]:
        """The report of the command line says the same, as a page."""
        page = f"{self.release.removesuffix('.json').removesuffix('.release')}.report.html"
        return [
            "report",
            self.release,
            *option("--prior", self.prior),
            *option("--outcome", self.outcome),
            *(["--on", *self.on.split()] if self.on else []),
            *option("--unit", self.unit),
            "--out",
            page,
        ]


@final
@dataclass(frozen=True, slots=True)
class CheckForm(Form):
    """A release, and a histogram of the same records."""

    release: str = ""
    histogram: str = ""
    prior: str = "weak"

    def check(self, folder: Folder) -> None:
        wrong = Wrong()
        wrong.need("release", self.release, "Choose the release of a column and a family.")
        wrong.need("histogram", self.histogram, "Choose the release of its histogram.")
        wrong.need("prior", self.prior, "Say the prior, or weak.")
        for name, given in (("release", self.release), ("histogram", self.histogram)):
            if given:
                wrong.ask(name, lambda given=given: folder.existing(given, "release"))  # type: ignore[misc]
        wrong.finish(self)

    def words(self) -> list[str]:
        return [
            "check",
            self.release,
            self.histogram,
            *option("--prior", self.prior),
            "--seed",
            "0",
        ]


@final
@dataclass(frozen=True, slots=True)
class LimitForm(Form):
    """What a dataset may cost in all."""

    ledger: str = ""
    dataset: str = ""
    epsilon: str = ""
    rho: str = ""

    def check(self, folder: Folder) -> None:
        wrong = Wrong()
        wrong.need("ledger", self.ledger, "Say the ledger's file, such as budget.db.")
        wrong.need("dataset", self.dataset, "Say the dataset's name, such as visits-2026.")
        if bool(self.epsilon) == bool(self.rho):
            wrong.errors["epsilon"] = "Say the most that may ever be spent, such as 2."
        if self.ledger:
            wrong.ask("ledger", lambda: folder.inside(self.ledger, "ledger"))
            if not self.ledger.endswith((".db", ".sqlite")):
                wrong.errors.setdefault("ledger", "A ledger's file ends in .db.")
        wrong.finish(self)

    def words(self) -> list[str]:
        return [
            "ledger",
            "set-limit",
            self.ledger,
            *option("--dataset", self.dataset),
            *option("--epsilon", self.epsilon),
            *option("--rho", self.rho),
        ]
