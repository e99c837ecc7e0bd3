"""Put the pages of the site together: docs/, and what stands outside it but belongs to it.

In the repository a link leads from file to file, so that it works where the repository is read.
Here README, SECURITY and CHANGELOG become pages like the others, and every link to them follows.
"""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
PAGES = {
    "README.md": "index.md",
    "SECURITY.md": "security.md",
    "CHANGELOG.md": "changelog.md",
    "docs/decisions": "decisions/index.md",
}
"""Where on the site the files and folders outside docs/, or without a page, are found."""
LINK = re.compile(r"(\]\()([^)\s]+)(\))")
FENCE = re.compile(r"(^```.*?^```$)", re.DOTALL | re.MULTILINE)
SECTION = re.compile(r"^<!-- README: (.+) -->$", re.MULTILINE)


def stage(folder: Path) -> None:
    """Write all pages to `folder`, which is emptied first."""
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(ROOT / "docs", folder)
    shutil.copy(ROOT / "website" / "site.css", folder)
    sources = {page: ROOT / "docs" / page for page in pages_below(ROOT / "docs")}
    sources |= {page: ROOT / name for name, page in PAGES.items() if name[0] in "SC"}
    for page, source in sources.items():
        text = SECTION.sub(lambda m: section_of_readme(m[1]), source.read_text())
        (folder / page).parent.mkdir(exist_ok=True)
        (folder / page).write_text(relinked(text, source, page, folder))
    (folder / "decisions" / "index.md").write_text(decisions())
    (folder / "reference" / "commands.md").write_text(commands())


def pages_below(folder: Path) -> list[str]:
    """The names of the pages in a folder, those of its folders included."""
    return sorted(str(page.relative_to(folder)) for page in folder.rglob("*.md"))


def section_of_readme(title: str) -> str:
    """The text of one section, with links as docs/index.md would write them."""
    text = (ROOT / "README.md").read_text()
    (body,) = re.findall(
        rf"^## {re.escape(title)}\n(.*?)(?=^## |\Z)", text, re.DOTALL | re.MULTILINE
    )
    return LINK.sub(lambda m: m[1] + outwards(m[2]) + m[3], body.strip())


def outwards(target: str) -> str:
    """A link of the README's, seen from docs/."""
    return target if "://" in target else os.path.relpath(target, "docs")


def relinked(text: str, source: Path, page: str, folder: Path) -> str:
    """The text with every link to another file led to where that file stands on the site."""

    def place(link: re.Match[str]) -> str:
        path, hash_, anchor = link[2].partition("#")
        if not path or "://" in path:
            return link[0]
        target = os.path.relpath(source.parent / path, ROOT)
        if target not in PAGES and not target.startswith("docs/"):
            there = shown(target, folder)
        else:
            there = PAGES.get(target, target.removeprefix("docs/"))
        return link[1] + os.path.relpath(there, Path(page).parent) + hash_ + anchor + link[3]

    parts = FENCE.split(text)
    return "".join(part if i % 2 else LINK.sub(place, part) for i, part in enumerate(parts))


def shown(file: str, folder: Path) -> str:
    """A page that shows a file of the repository."""
    page = folder / f"{file}.md"
    page.parent.mkdir(exist_ok=True)
    page.write_text(f"# {file}\n\n```python\n{(ROOT / file).read_text()}```\n")
    return str(page.relative_to(folder))


def decisions() -> str:
    """A list of all decisions by their titles."""
    rows = [
        f"* [{page.read_text().splitlines()[0].removeprefix('# ')}]({page.name})"
        for page in sorted((ROOT / "docs" / "decisions").glob("0*.md"))
    ]
    return "# Decisions\n\nOne page for each choice that somebody will question.\n\n" + "\n".join(
        rows
    )


def commands() -> str:
    """Every command and option, as `--help` has them."""
    typer = [sys.executable, "-m", "typer", "noisewise.cli.main", "utils", "docs"]
    run = [*typer, "--name", "noisewise", "--title", "Commands"]
    return subprocess.run(run, check=True, capture_output=True, text=True).stdout
