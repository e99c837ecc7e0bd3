"""Build the site: python -m website.build [folder]. Nothing broken passes."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

from website import font
from website.check import faults
from website.stage import ROOT, stage

SHIM = "https://unpkg.com/iframe-worker/shim"
"""What the theme would load, for the search in pages opened as files; it is put beside them."""


def build(folder: Path) -> Path:
    """Stage the pages in `folder`, build the site there, check it; returns where it is."""
    stage(folder / "pages")
    shutil.rmtree(folder / "site", ignore_errors=True)
    settings = (ROOT / "website" / "zensical.toml").read_text()
    (folder / "zensical.toml").write_text(settings.replace("../../src", str(ROOT / "src")))
    subprocess.run(
        [sys.executable, "-m", "zensical", "build", "--strict", "--clean"],
        cwd=folder,
        env=os.environ | {"PYTHONPATH": os.pathsep.join([str(ROOT), *sys.path])},
        check=True,
    )
    site = folder / "site"
    shutil.copy(ROOT / "website" / "iframe-worker.js", site)
    for page in site.rglob("*.html"):
        shim = os.path.relpath(site / "iframe-worker.js", page.parent)
        page.write_text(page.read_text().replace(SHIM, shim))
    font.write(site)
    if wrong := faults(site):
        raise SystemExit("\n".join(["The site is broken:", *wrong]))
    return site


if __name__ == "__main__":
    where = Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT / "build" / "docs"
    print(f"The site is at {build(where.resolve()).relative_to(Path.cwd())}/index.html")
