"""Release: a dry run first, then one button that spends, asked twice."""

import hashlib
import re
import secrets
from collections.abc import Mapping
from decimal import Decimal
from pathlib import Path

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Route

from noisewise.curator.ledger import Ledger
from noisewise.errors import NoisewiseError
from noisewise.mechanism.privacy import remaining, text
from noisewise.studio.families import CHOICES
from noisewise.studio.forms import ReleaseForm, Unfilled
from noisewise.studio.jobs import Job
from noisewise.studio.site import Site, sent

KEY = re.compile(r"[A-Za-z0-9_-]{20,64}")
"""What a spend is known by."""


def routes(site: Site) -> list[Route]:
    """The form, its dry run, the question, and the spend."""

    def shown(form: ReleaseForm, job: Job | None, errors: Mapping[str, str]) -> Response:
        return site.show(
            "release.html",
            here="release",
            form=form,
            job=job,
            errors=errors,
            choices=CHOICES,
            tables=site.folder.tables(),
            ledgers=site.folder.ledgers(),
        )

    def page(request: Request) -> Response:
        return shown(ReleaseForm.of(request.query_params), None, {})

    async def rehearse(request: Request) -> Response:
        form = ReleaseForm.of(await sent(request))
        try:
            form.check(site.folder)
        except Unfilled as wrong:
            return shown(form, None, wrong.errors)
        # one key for each dry run, however often and in how many tabs its button is pressed
        asked = form.values() | {"key": secrets.token_urlsafe(24)}
        job = site.jobs.start("dry_run", asked, site.command(form.words(dry=True)))
        return RedirectResponse(f"/release/{job.id}", status_code=303)

    def found(request: Request) -> Response:
        job = site.job(request)
        if job is None:
            return site.show("gone.html", 404, here="release")
        return shown(ReleaseForm.of(job.arguments), job, {})

    def confirm(request: Request) -> Response:
        job = site.job(request)
        if job is None or job.task != "dry_run" or job.state != "done":
            return site.show("gone.html", 404, here="release")
        form = ReleaseForm.of(job.arguments)
        return site.show(
            "confirm.html",
            here="release",
            job=job,
            form=form,
            key=job.arguments["key"],
            balance=_balance(site.root, form, job),
            command=site.command(form.words(dry=False)),
        )

    async def spend(request: Request) -> Response:
        given = await sent(request)
        form, key = ReleaseForm.of(given), str(given.get("key", ""))
        if KEY.fullmatch(key) is None:
            return site.show("gone.html", 400, here="release")
        try:
            form.check(site.folder)
        except Unfilled as wrong:
            return shown(form, None, wrong.errors)
        name = "spend-" + hashlib.sha256(key.encode()).hexdigest()[:24]
        asked = form.values() | {"key": key}
        job = site.jobs.start("publish", asked, site.command(form.words(dry=False)), name)
        return RedirectResponse(f"/release/{job.id}", status_code=303)

    return [
        Route("/release", page),
        Route("/release/rehearse", rehearse, methods=["POST"]),
        Route("/release/spend", spend, methods=["POST"]),
        Route("/release/{job}", found),
        Route("/release/{job}/confirm", confirm),
    ]


def _balance(root: Path, form: ReleaseForm, job: Job) -> dict[str, str]:
    """What the ledger has now and would have after: it may have changed since the dry run."""
    told, ledger = job.result, Ledger(root / form.ledger)
    try:
        now = next(one for one in ledger.accounts() if one.dataset == told["dataset"])
        paid = ledger.paid(job.arguments["key"])
    except (NoisewiseError, StopIteration):
        return {"before": told["before"], "after": told["after"], "paid": "", "enough": "yes"}
    after = remaining(now.left, Decimal(told["counted"]))
    enough = "yes" if after >= 0 else ""
    return {"before": text(now.left), "after": text(after), "paid": paid or "", "enough": enough}
