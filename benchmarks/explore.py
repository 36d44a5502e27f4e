"""How soon the explorer's map is redrawn after a slider has moved, in a real browser.

    python benchmarks/explore.py [moves]

INV-Mix at the paper's size (33 x 25 states). A move sets the slider and tells the page, as a hand
would; the time runs until the frame after the new map was drawn: building, solving, the wire both
ways, drawing. Each move is to a value that was not solved before. The aim is 150 ms.

The last line is the time of processors that a move takes, which other work on the machine does not
lengthen: in the process that computes, in the server, and in the page's own thread.
"""

from __future__ import annotations

import shutil
import statistics
import subprocess
import sys

import psutil
from playwright.sync_api import CDPSession, sync_playwright

PARAMETERS = {"holding_cost": (0.04, 0.3), "shortage_cost": (0.8, 4.0), "demand_slope": (0.1, 0.9)}
QUIET = "--headless --no-sandbox --disable-gpu --no-first-run --disable-background-networking"
MOVE = """([id, value]) => new Promise((done) => {
  const [map, slider] = [document.getElementById("map"), document.getElementById(id)];
  const begun = performance.now();
  const watch = new MutationObserver(() => {
    watch.disconnect();
    requestAnimationFrame(() => setTimeout(() => done(performance.now() - begun)));
  });
  watch.observe(map, { attributeFilter: ["data-drawn"] });
  slider.value = value;
  slider.dispatchEvent(new Event("input", { bubbles: true }));
})"""


def main(moves: int = 60) -> None:
    words = ["-m", "tessella", "explore", "INV-Mix", "--no-browser"]
    command = [sys.executable, "-u", *words]
    with (
        subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process,
        sync_playwright() as drives,
    ):
        assert process.stdout is not None
        address = next(told.strip() for told in process.stdout if told.startswith("http"))
        chromium = shutil.which("chromium")
        browser = drives.chromium.launch(executable_path=chromium, args=QUIET.split())
        page = browser.new_page(viewport={"width": 1440, "height": 960})
        page.goto(address)
        page.wait_for_selector("#map[data-drawn]", timeout=300_000)
        page.wait_for_selector(".tests li", timeout=300_000)
        thread = page.context.new_cdp_session(page)
        thread.send("Performance.enable", {"timeDomain": "threadTicks"})
        before = spent(process.pid, thread)
        print(f"{'slider':16}{'median ms':>11}{'95 % ms':>9}{'worst ms':>10}")
        everything = []
        for name, (low, high) in PARAMETERS.items():
            times = []
            for k in range(moves):
                value = low + (high - low) * ((k * 0.618034) % 1)
                times.append(page.evaluate(MOVE, [f"set-{name}", f"{value:.6f}"]))
            everything += times
            line(name, times)
        line("all", everything)
        taken = zip(before, spent(process.pid, thread), strict=True)
        each = [1e3 * (after - first) / len(everything) for first, after in taken]
        print("CPU ms a move: computing {:.1f}, server {:.1f}, page {:.1f}".format(*each))
        browser.close()
        process.terminate()


def spent(server: int, thread: CDPSession) -> tuple[float, float, float]:
    """Seconds of processors so far: the process that computes, the server, the page's thread."""
    serving = psutil.Process(server)
    clocks = [one.cpu_times() for one in (serving, *serving.children())]
    own, *others = [clock.user + clock.system for clock in clocks]
    told = thread.send("Performance.getMetrics")["metrics"]
    page = next(one["value"] for one in told if one["name"] == "TaskDuration")
    return sum(others), own, page


def line(name: str, times: list[float]) -> None:
    ordered = sorted(times)
    late = ordered[min(len(ordered) - 1, round(0.95 * len(ordered)))]
    print(f"{name:16}{statistics.median(times):11.0f}{late:9.0f}{ordered[-1]:10.0f}")


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
