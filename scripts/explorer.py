"""Take the picture of the explorer for the README: the perishable stock with a rule over its map.

python scripts/explorer.py [--out FILE] [--chromium PATH]
"""

from __future__ import annotations

import argparse
import shutil
import subprocess
import sys
from pathlib import Path

from playwright.sync_api import sync_playwright

VIEW = "&overlay=rule&rule.loss=0.005&rule.seconds=30&tab=rule&cursor=2,5"
SIZE = {"width": 1440, "height": 900}
LONGEST_WAIT = 120_000  # milliseconds


def take_picture(address: str, chromium: str, out: Path) -> None:
    """Open a view and save what is in sight once the rule is found and drawn."""
    with sync_playwright() as drives:
        browser = drives.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        page = browser.new_page(viewport=SIZE)
        page.set_default_timeout(LONGEST_WAIT)
        page.goto(address + VIEW)
        page.wait_for_selector("#downloads")
        page.wait_for_selector("#legend .dot")
        page.screenshot(path=out)
        browser.close()


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    images = Path(__file__).parents[1] / "docs" / "images"
    parser.add_argument("--out", type=Path, default=images / "explorer.png")
    parser.add_argument("--chromium", default=shutil.which("chromium"))
    given = parser.parse_args()
    command = [sys.executable, "-u", "-m", "tessella", "explore", "perishable", "--no-browser"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            address = next(line for line in process.stdout if line.startswith("http")).strip()
            take_picture(address, given.chromium, given.out)
        finally:
            process.terminate()
    print(given.out)


if __name__ == "__main__":
    main()
