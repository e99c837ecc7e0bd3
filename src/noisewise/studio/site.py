"""What all pages share: the folder, the jobs, the templates."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any, final

from jinja2 import Environment, PackageLoader, StrictUndefined, select_autoescape
from markupsafe import Markup
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response

from noisewise.studio.commands import command
from noisewise.studio.curve import Curves
from noisewise.studio.folder import Folder
from noisewise.studio.jobs import Job, Jobs

PAGES = (
    ("plan", "Plan", "Which privacy cost buys which precision"),
    ("release", "Release", "From a table to a release"),
    ("posterior", "Posterior", "What a release tells"),
    ("check", "Check", "Does the model fit?"),
    ("ledger", "Ledger", "Limits and spends"),
)
"""Address, name and purpose, in the order in which they are used."""


def drawn(markup: str) -> Markup:
    """What `report` or the curve made: they have escaped what came from a file."""
    return Markup(markup)  # noqa: S704


@cache
def templates() -> Environment:
    """Compiled once. What a template does not say to be drawn is escaped."""
    made = Environment(
        loader=PackageLoader("noisewise.studio"),
        autoescape=select_autoescape(default=True, default_for_string=True),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.filters["drawn"] = drawn
    made.filters["pairs"] = lambda names: [(name, name) for name in names]
    return made


@final
@dataclass(frozen=True)
class Site:
    """Of one studio."""

    folder: Folder
    jobs: Jobs
    curves: Curves = field(default_factory=Curves)

    @property
    def root(self) -> Path:
        return self.folder.root

    def show(self, template: str, status: int = 200, **values: Any) -> Response:
        """A page or a part of one. Every value is escaped but what the studio drew itself."""
        text = templates().get_template(template).render(pages=PAGES, root=self.root, **values)
        return HTMLResponse(text, status)

    def command(self, words: list[str]) -> str:
        """As it is pasted into a terminal."""
        return command(self.root, words)

    def job(self, request: Request) -> Job | None:
        """The one that the address names."""
        return self.jobs.get(request.path_params["job"])


async def sent(request: Request) -> Mapping[str, Any]:
    """The fields of a form without files."""
    async with request.form(max_files=0, max_fields=60) as given:
        return {name: value for name, value in given.items() if isinstance(value, str)}
