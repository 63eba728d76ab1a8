"""How long does a page take to make, to open, to search and to scroll?

usage: python benchmarks/inspect/run.py [--segments 10000] [--long 200]

Two inputs from the bundled samples: many segments of 16 samples, and few of 1,024. The browser's
numbers are from its own timeline (marks, long tasks, frames), in a headless Chromium; those of the
command are of a process of its own. Writes results.json beside this file.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import suppress
from importlib.resources import files
from itertools import cycle, islice
from pathlib import Path
from typing import Any

from playwright.sync_api import Page, sync_playwright

from minrisk.io.files import Input

HERE = Path(__file__).parent
sys.path.append(str(HERE.parent))

import machine

SCROLL = """async () => {
  const list = document.getElementById('list'), frames = [];
  let last = performance.now();
  for (let step = 0; step < 300; step++) {
    list.scrollTop += 1500;
    await new Promise(requestAnimationFrame);
    frames.push(performance.now() - last);
    last = performance.now();
  }
  frames.sort((a, b) => a - b);
  return {frames: 300, median_frame_ms: frames[150], largest_frame_ms: frames[299]};
}"""
SEARCH = """async (query) => {
  const input = document.getElementById('search'), count = document.getElementById('count');
  const found = new Promise((resolve) => new MutationObserver(() => {
    if (!count.textContent.startsWith('searching')) resolve();
  }).observe(count, {childList: true}));
  const start = performance.now();
  input.value = query;
  input.dispatchEvent(new Event('input'));
  await found;
  return {ms: performance.now() - start, found: count.textContent};
}"""
LONG_TASKS = """new PerformanceObserver((list) => {
  window.longTasks = [...(window.longTasks ?? []), ...list.getEntries().map((e) => e.duration)];
}).observe({type: 'longtask', buffered: true})"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--segments", type=int, default=10_000)
    parser.add_argument("--long", type=int, default=200)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        found = {"machine": machine.processor(),
                 "load": os.getloadavg()[0],  # of others, beside which this was measured
                 "many": _many(Path(folder), options.segments),
                 "long": _long(Path(folder), options.long)}
    (HERE / "results.json").write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    print(json.dumps(found, indent=1))


def _many(folder: Path, segments: int) -> dict[str, Any]:
    """Segments of 16 distinct samples each, and the page in a browser."""
    rng = random.Random(0)
    bundled = list(_bundled())
    path, page = folder / "many.jsonl", folder / "many.html"
    with path.open("w", encoding="utf-8") as output:
        for number, record in enumerate(islice(cycle(bundled), segments)):
            texts = [f"{text} ({number})" for text in rng.sample(record["samples"], 16)]
            output.write(json.dumps({"id": number, "source": f"{record['source']} ({number})",
                                     "samples": texts}) + "\n")
    made = _command("inspect", path, "-o", page)
    return {"segments": segments, "samples": 16, "command": made,
            "page_mb": page.stat().st_size / 1e6, "browser": _browse(page, segments)}


def _long(folder: Path, segments: int) -> dict[str, Any]:
    """Few segments of 1,024 samples: the command beside `decode`, and what memory it takes."""
    found: dict[str, Any] = {"segments": segments, "samples": 1024}
    for count in (segments // 2, segments):
        path = folder / f"long-{count}.jsonl"
        with path.open("w", encoding="utf-8") as output:
            for record in islice(cycle(_bundled()), count):
                output.write(json.dumps(record) + "\n")
        found[f"inspect {count}"] = _command("inspect", path, "-o", folder / "long.html")
    found["decode"] = _command("decode", path, "-o", folder / "best.jsonl")
    for what in ("wall_s", "cpu_s"):
        found[f"times_decode_{what}"] = found[f"inspect {segments}"][what] / found["decode"][what]
    return found


def _bundled() -> Iterator[dict[str, Any]]:
    source = Input(str(files("minrisk") / "data" / "demo.jsonl.xz"))
    return (json.loads(source.text(line)) for line in source)


def _command(*args: object) -> dict[str, float]:
    start = time.perf_counter()
    process = subprocess.Popen([sys.executable, "-m", "minrisk", *map(str, args), "-q"])
    _, status, usage = os.wait4(process.pid, 0)
    assert status == 0
    return {"wall_s": time.perf_counter() - start, "cpu_s": usage.ru_utime + usage.ru_stime,
            "peak_mb": usage.ru_maxrss / 1e3}


def _browse(path: Path, segments: int) -> dict[str, Any]:
    with sync_playwright() as driver:
        others = _renderers()
        browser = driver.chromium.launch(executable_path=shutil.which("chromium"),
                                         args=["--no-sandbox"] if os.getuid() == 0 else [])
        page = browser.new_page()
        page.add_init_script(LONG_TASKS)
        page.goto(path.as_uri())
        page.wait_for_selector("html[data-ready]")
        renderer = max(_renderers() - others, key=_main_thread_ms)
        first = page.evaluate("performance.getEntriesByName('first-row')[0].startTime")
        page.wait_for_load_state("networkidle")
        page.wait_for_timeout(5000)  # while it opens what is behind the rows
        opening = _long_tasks(page)
        opening_cpu = _main_thread_ms(renderer)
        scroll = _with_cpu(page, renderer, SCROLL)
        scrolling = _long_tasks(page)
        search = _with_cpu(page, renderer, SEARCH, f"({segments - 1})")
        searching = _long_tasks(page)
        again = _with_cpu(page, renderer, SEARCH, f"({segments - 2})")
        found = {"version": browser.version, "first_row_ms": first, "opening_cpu_ms": opening_cpu,
                 "long_tasks_ms_opening": opening, "scroll": scroll,
                 "long_tasks_ms_scrolling": scrolling,
                 "first_search": search, "long_tasks_ms_searching": searching,
                 "next_search": again}
        browser.close()
        return found


def _with_cpu(page: Page, renderer: int, script: str, argument: object = None) -> dict[str, Any]:
    """With the CPU time of the page's main thread, which does not depend on who else is busy."""
    before = _main_thread_ms(renderer)
    found: dict[str, Any] = page.evaluate(script, argument)
    return found | {"cpu_ms": _main_thread_ms(renderer) - before}


def _main_thread_ms(process: int) -> float:
    """User and system time of the first thread; Linux only."""
    fields = Path(f"/proc/{process}/task/{process}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) * 1000 / os.sysconf("SC_CLK_TCK")


def _renderers() -> set[int]:
    found = set()
    for file in Path("/proc").glob("[0-9]*/cmdline"):
        with suppress(OSError):  # it has just ended
            if b"--type=renderer" in file.read_bytes():
                found.add(int(file.parent.name))
    return found


def _long_tasks(page: Page) -> list[float]:
    """Since the last call: tasks of more than 50 ms, as the browser saw them."""
    found: list[float] = page.evaluate(
        "() => { const found = window.longTasks ?? []; window.longTasks = []; return found; }")
    return found


if __name__ == "__main__":
    main()
