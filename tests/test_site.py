"""The site builds, every link leads somewhere, nothing is loaded from elsewhere; and the checks
that say so can fail.
"""

import os
import re
from pathlib import Path

import markdown
import pytest

from website import build, check, stage

ROOT = Path(__file__).parents[1]
PAGES = [
    *(ROOT / name for name in ("README.md", "SECURITY.md", "CHANGELOG.md")),
    *sorted((ROOT / "docs").rglob("*.md")),
]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_to_files_where_the_repository_is_read(page: Path) -> None:
    for _, target, _ in stage.LINK.findall(stage.FENCE.sub("", page.read_text())):
        path = target.partition("#")[0]
        if "://" not in target and path:
            assert os.path.exists(page.parent / path), f"{target} leads nowhere"


def test_every_page_stands_in_the_navigation() -> None:
    navigation = (ROOT / "website" / "zensical.toml").read_text()
    pages = [page for page in stage.pages_below(ROOT / "docs") if "decisions/" not in page]
    assert [page for page in pages if f'"{page}"' not in navigation] == []


def test_the_site_is_whole_and_by_itself(tmp_path: Path) -> None:
    site = build.build(tmp_path)
    assert check.faults(site) == []
    home = (site / "index.html").read_text()
    assert home.index("noisewise plan") < home.index("curator's tutorial")
    assert len(re.findall("<math", (site / "mathematics.html").read_text())) > 100
    assert "noisewise.release" in (site / "reference" / "functions.html").read_text()
    assert "--records-per-person" in (site / "reference" / "commands.html").read_text()
    families = (site / "reference" / "families.html").read_text()
    assert "ClassVar" not in families, "a constructor is shown with what is no argument of it"
    for decision in (ROOT / "docs" / "decisions").glob("0*.md"):
        assert f"{decision.stem}.html" in (site / "decisions" / "index.html").read_text()


@pytest.mark.parametrize(
    ("html", "fault"),
    [
        ('<a href="b.html">', "leads nowhere"),
        ('<a href="a.html#there">', "leads to no heading"),
        ('<img src="x.svg">', "leads nowhere"),
        ('<script src="https://elsewhere.org/x.js">', "loads https"),
        ('<link rel="stylesheet" href="//elsewhere.org/x.css">', "loads //"),
        ('<p style="background: url(https://elsewhere.org/x)">', "loads https"),
        ("<style>@import 'https://elsewhere.org/x.css'</style>", "loads https"),
        ('<pre class="mermaid">', "loads //mermaid"),
        ('<a href="a.html#here" id="here">', ""),
        ('<a href="https://elsewhere.org">', ""),
    ],
)
def test_the_check_finds_what_is_wrong(html: str, fault: str, tmp_path: Path) -> None:
    (tmp_path / "a.html").write_text(html)
    found = check.faults(tmp_path)
    assert bool(found) == bool(fault)
    assert all(fault in one for one in found)


@pytest.mark.parametrize(
    ("text", "has"),
    [
        (r"a $\sqrt{2}$ b", "<msqrt>"),
        (r"$$\sum_j x_j$$", 'display="block"'),
        ("`$x$` and 5$ or 6$", "5$ or 6$"),
    ],
)
def test_formulas_become_mathml(text: str, has: str) -> None:
    assert has in markdown.markdown(text, extensions=["website.formulas"])


def test_a_formula_that_is_not_understood_is_an_error() -> None:
    with pytest.raises(ValueError, match="not understood"):
        markdown.markdown(r"$\nosuchthing x$", extensions=["website.formulas"])
