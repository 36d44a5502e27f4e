"""Take the picture of the explorer for the docs: the perishable stock with a rule over its map.

python scripts/explorer.py [--out FILE] [--chromium PATH]

The picture carries a hash of the page's files, so that a test finds it stale when they change.
"""

from __future__ import annotations

import argparse
import hashlib
import shutil
import subprocess
import sys
from pathlib import Path

from PIL import Image, PngImagePlugin
from playwright.sync_api import sync_playwright

ROOT = Path(__file__).parents[1]
IMAGE = ROOT / "docs" / "images" / "explorer.png"
PAGE_FILES = ROOT / "src" / "tessella" / "explore" / "page"
HASH_FIELD = "page-sha256"
VIEW = "&overlay=rule&rule.loss=0.005&rule.seconds=30&tab=rule&cursor=2,5"
VIEWPORT = {"width": 1440, "height": 900}
MAX_WAIT_MS = 120_000


def take_picture(address: str, chromium: str, out: Path) -> None:
    """Open a view and save what is in sight once the rule is found and drawn."""
    with sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        page = browser.new_page(viewport=VIEWPORT)
        page.set_default_timeout(MAX_WAIT_MS)
        page.goto(address + VIEW)
        page.wait_for_selector("#downloads")
        page.wait_for_selector("#legend .dot")
        page.screenshot(path=out)
        browser.close()
    sign_picture(out)


def hash_page() -> str:
    """SHA-256 over the files of the page, in the order of their names."""
    digest = hashlib.sha256()
    for path in sorted(PAGE_FILES.iterdir()):
        digest.update(path.name.encode() + b"\0" + path.read_bytes())
    return digest.hexdigest()


def sign_picture(path: Path) -> None:
    fields = PngImagePlugin.PngInfo()
    fields.add_text(HASH_FIELD, hash_page())
    with Image.open(path) as picture:
        picture.load()
        picture.save(path, pnginfo=fields, optimize=True)


def read_hash(path: Path) -> str:
    """The hash that a picture carries."""
    with Image.open(path) as picture:
        return str(picture.info.get(HASH_FIELD, ""))


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--out", type=Path, default=IMAGE)
    parser.add_argument("--chromium", default=shutil.which("chromium"))
    options = parser.parse_args()
    command = [sys.executable, "-u", "-m", "tessella", "explore", "perishable", "--no-browser"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            address = next(line for line in process.stdout if line.startswith("http")).strip()
            take_picture(address, options.chromium, options.out)
        finally:
            process.terminate()
    print(options.out)


if __name__ == "__main__":
    main()
