"""Time until the explorer redraws its map after a slider has moved, in a real browser.

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
BROWSER_OPTIONS = (
    "--headless --no-sandbox --disable-gpu --no-first-run --disable-background-networking"
)
MOVE_SCRIPT = """([id, value]) => new Promise((done) => {
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
    arguments = ["-m", "tessella", "explore", "INV-Mix", "--no-browser"]
    command = [sys.executable, "-u", *arguments]
    with (
        subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process,
        sync_playwright() as driver,
    ):
        assert process.stdout is not None
        address = next(line.strip() for line in process.stdout if line.startswith("http"))
        chromium = shutil.which("chromium")
        browser = driver.chromium.launch(executable_path=chromium, args=BROWSER_OPTIONS.split())
        page = browser.new_page(viewport={"width": 1440, "height": 960})
        page.goto(address)
        page.wait_for_selector("#map[data-drawn]", timeout=300_000)
        page.wait_for_selector(".tests li", timeout=300_000)
        thread = page.context.new_cdp_session(page)
        thread.send("Performance.enable", {"timeDomain": "threadTicks"})
        before = read_cpu_seconds(process.pid, thread)
        print(f"{'slider':16}{'median ms':>11}{'95 % ms':>9}{'worst ms':>10}")
        all_times = []
        for name, (low, high) in PARAMETERS.items():
            times = []
            for k in range(moves):
                value = low + (high - low) * ((k * 0.618034) % 1)
                times.append(page.evaluate(MOVE_SCRIPT, [f"set-{name}", f"{value:.6f}"]))
            all_times += times
            print_row(name, times)
        print_row("all", all_times)
        clocks = zip(before, read_cpu_seconds(process.pid, thread), strict=True)
        milliseconds = [1e3 * (after - first) / len(all_times) for first, after in clocks]
        print("CPU ms a move: computing {:.1f}, server {:.1f}, page {:.1f}".format(*milliseconds))
        browser.close()
        process.terminate()


def read_cpu_seconds(server: int, thread: CDPSession) -> tuple[float, float, float]:
    """Seconds of processors so far: the process that computes, the server, the page's thread."""
    server_process = psutil.Process(server)
    clocks = [process.cpu_times() for process in (server_process, *server_process.children())]
    server_seconds, *other_seconds = [clock.user + clock.system for clock in clocks]
    metrics = thread.send("Performance.getMetrics")["metrics"]
    page = next(process["value"] for process in metrics if process["name"] == "TaskDuration")
    return sum(other_seconds), server_seconds, page


def print_row(name: str, times: list[float]) -> None:
    ordered = sorted(times)
    percentile_95 = ordered[min(len(ordered) - 1, round(0.95 * len(ordered)))]
    print(f"{name:16}{statistics.median(times):11.0f}{percentile_95:9.0f}{ordered[-1]:10.0f}")


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
