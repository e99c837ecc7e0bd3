"""What all pages of reports share: facts of a release, its cost, its certificate, its source."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from importlib.metadata import version
from typing import final

from noisewise.artifact import Release
from noisewise.inference.certificate import Certificate
from noisewise.report.about import citation, meaning_of, published
from noisewise.report.page import Page
from noisewise.report.suspicion import plot_suspicion
from noisewise.report.units import Units

MOST_CITED = 20
"""Releases that are listed one by one."""


@final
@dataclass(frozen=True, slots=True)
class Context:
    """What a person says of a report: its title, units, and the command that makes it again."""

    title: str | None = None
    units: Units = field(default_factory=Units)
    command: str = ""


def trust(page: Page, certificate: Certificate) -> None:
    """How far to trust the numbers: warnings first."""
    page.heading("How far to trust it")
    for warning in certificate.warnings:
        page.warning(warning)
    bare = certificate.sentence.split("; WARNING: ")[0].rstrip(".")
    page.words(f"{bare}.")
    if certificate.assumptions:
        page.text("It is assumed that")
        page.bullets(list(certificate.assumptions))


def released(page: Page, releases: Sequence[Release], context: Context) -> None:
    """What was published, about whom, at which cost."""
    page.heading("What was published")
    first = releases[0]
    if len(releases) > 1:
        page.words(f"{len(releases)} releases were read; this is the first.")
    page.facts(published(first, context.units))
    page.heading("About whom, and at which cost")
    if first.privacy is None:
        page.words(
            "The release does not say what it cost, or whom it protects: another tool made it."
        )
        return
    meaning = meaning_of(first.privacy)
    page.words(meaning.sentence)
    more = len({one.dataset for one in releases}) == 1 and len(releases) > 1
    if more and any(one.group is None for one in releases):
        page.words("The costs of releases about the same people add up.")
    page.figures(
        [
            (
                plot_suspicion(meaning),
                "What somebody suspects of a person before they see the release, and where that "
                "suspicion may be afterwards.",
            )
        ]
    )


def source(page: Page, releases: Sequence[Release], context: Context) -> None:
    """How to cite the releases, and how to make the page again."""
    page.heading("How to cite and repeat it")
    page.bullets(citation(releases[:MOST_CITED]))
    if len(releases) > MOST_CITED:
        page.words(f"And {len(releases) - MOST_CITED} more.")
    if context.command:
        page.code(context.command)
    page.footer(
        f"Made by noisewise {version('noisewise')}. The page loads nothing from elsewhere, and "
        "holds no record."
    )
