"""What a built site must be: whole, and by itself. Every link leads to a page and a heading that
exist, and no page loads anything from elsewhere.
"""

import re
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

LOADED = {"script": "src", "img": "src", "iframe": "src", "source": "src", "link": "href"}
"""What a browser fetches by itself when it opens a page."""
IN_STYLE = re.compile(r"(?:url\(\s*|@import\s+)['\"]?([^'\")\s]+)")
"""What a style sheet fetches."""
BY_CLASS = {"mermaid", "glightbox"}
"""Classes for which the theme's own script fetches another from elsewhere."""
HARMLESS = {"canonical", "next", "prev", "edit"}
"""Kinds of <link> that are never fetched."""


class Page(HTMLParser):
    """The places, links and loaded files of one page."""

    def __init__(self, file: Path) -> None:
        super().__init__()
        self.places: set[str] = {""}
        self.links: list[str] = []
        self.loaded: list[str] = []
        self.feed(file.read_text())

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Note what this element names, leads to or loads."""
        have = {name: value or "" for name, value in attrs}
        self.places |= {have[name] for name in ("id", "name") if name in have}
        if tag == "a" and "href" in have:
            self.links.append(have["href"])
        if tag in LOADED and LOADED[tag] in have and have.get("rel") not in HARMLESS:
            self.loaded.append(have[LOADED[tag]])
        self.loaded += IN_STYLE.findall(have.get("style", ""))
        self.loaded += [f"//{name}" for name in BY_CLASS & set(have.get("class", "").split())]

    def handle_data(self, data: str) -> None:
        """The text of a <style> loads, too."""
        if self.lasttag == "style":
            self.loaded += IN_STYLE.findall(data)


def faults(site: Path) -> list[str]:
    """Everything that is wrong, one line each."""
    pages = {file: Page(file) for file in sorted(site.rglob("*.html"))}
    found = []
    for file, page in pages.items():
        here = file.relative_to(site)
        found += [f"{here} loads {url}" for url in page.loaded if outside(url)]
        for link in [*page.links, *page.loaded]:
            if not outside(link) and (wrong := fault(link, file, site, pages)):
                found.append(f"{here}: {link} {wrong}")
    for sheet in sorted(site.rglob("*.css")):
        loaded = IN_STYLE.findall(sheet.read_text())
        found += [f"{sheet.relative_to(site)} loads {url}" for url in loaded if outside(url)]
    return found


def outside(url: str) -> bool:
    """Whether it leads away from the site."""
    return urlsplit(url).scheme in ("http", "https", "mailto") or url.startswith("//")


def fault(link: str, file: Path, site: Path, pages: dict[Path, Page]) -> str:
    """What is wrong with a link within the site; empty if nothing is."""
    parts = urlsplit(link)
    if parts.scheme in ("data", "javascript"):
        return ""
    base = site if parts.path.startswith("/") else file.parent
    target = (base / unquote(parts.path).lstrip("/")).resolve() if parts.path else file
    if target.is_dir():
        target /= "index.html"
    if not target.is_file():
        return "leads nowhere"
    if target in pages and unquote(parts.fragment) not in pages[target].places:
        return "leads to no heading"
    return ""
