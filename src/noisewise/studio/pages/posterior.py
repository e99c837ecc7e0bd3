"""Posterior: what a release tells. Releases are chosen from the folder, or added to it."""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

from starlette.concurrency import run_in_threadpool
from starlette.datastructures import UploadFile
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Route

from noisewise.artifact import Release, load
from noisewise.artifact.wire import parse
from noisewise.errors import NoisewiseError
from noisewise.inference.problem import example
from noisewise.model.families.moments import Moments
from noisewise.studio.forms import PosteriorForm, Unfilled
from noisewise.studio.jobs import Job
from noisewise.studio.site import Site, sent

_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_. -]{0,80}\.json")
"""What an uploaded file may be called."""


def routes(site: Site) -> list[Route]:
    """The form, what was found, and a release that is added."""

    def shown(
        form: PosteriorForm, job: Job | None = None, errors: Mapping[str, str] | None = None
    ) -> Response:
        return site.show(
            "posterior.html",
            here="posterior",
            form=form,
            job=job,
            errors=errors or {},
            releases=site.folder.releases(),
            hint=_hint(site, form.release),
        )

    def page(request: Request) -> Response:
        return shown(PosteriorForm.of(request.query_params))

    async def ask(request: Request) -> Response:
        form = PosteriorForm.of(await sent(request))
        try:
            form.check(site.folder)
        except Unfilled as wrong:
            return shown(form, errors=wrong.errors)
        job = site.jobs.start("posterior", form.values(), site.command(form.words()))
        return RedirectResponse(f"/posterior/{job.id}", status_code=303)

    def found(request: Request) -> Response:
        job = site.job(request)
        if job is None:
            return site.show("gone.html", 404, here="posterior")
        return shown(PosteriorForm.of(job.arguments), job)

    async def add(request: Request) -> Response:
        async with request.form(max_files=1, max_fields=5) as given:
            file = given.get("file")
            if not isinstance(file, UploadFile) or not file.filename:
                errors = {"file": "Choose the file of a release."}
                return await run_in_threadpool(shown, PosteriorForm(), None, errors)
            name, data = Path(file.filename).name, await file.read()
        try:
            kept = await run_in_threadpool(_keep, site, name, data)
        except NoisewiseError as error:
            errors = {"file": f"That was not added: {error}"}
            return await run_in_threadpool(shown, PosteriorForm(), None, errors)
        return RedirectResponse(f"/posterior?{urlencode({'release': kept})}", status_code=303)

    return [
        Route("/posterior", page),
        Route("/posterior/ask", ask, methods=["POST"]),
        Route("/posterior/add", add, methods=["POST"]),
        Route("/posterior/{job}", found),
    ]


def _keep(site: Site, name: str, data: bytes) -> str:
    """Write an uploaded release into the folder, as it was understood: nothing else gets in."""
    release: Release = parse(data)
    if _NAME.fullmatch(name) is None:
        name = "added.release.json"
    path = site.folder.inside(name, "release")
    release.save(site.root / path)
    return str(path)


def _hint(site: Site, name: str) -> dict[str, Any]:
    """How a prior of the chosen release is written; of several columns, their names."""
    try:
        release = load(site.root / site.folder.existing(name, "release"))
    except (NoisewiseError, OSError):
        return {"prior": "", "columns": []}
    if isinstance(release.family, Moments):
        return {"prior": "", "columns": [one.name for one in release.family.parts]}
    return {"prior": example(release.family), "columns": []}
