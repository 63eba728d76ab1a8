"""How long does a page take to make, to open, to search and to scroll?

usage: python benchmarks/inspect/run.py [--segments 10000] [--long 200]

Two inputs from the bundled samples: many segments of 16 samples, and few of 1,024. The browser's
numbers are from its own timeline (marks, long tasks, frames), in a headless Chromium; those of the
command are of a process of its own. Writes results.json, and the tables of README.md.
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
from typing import TYPE_CHECKING, Any

from minrisk.io.files import Input

HERE = Path(__file__).parent
sys.path.append(str(HERE.parent))  # what all benchmarks share

import machine
import pages

if TYPE_CHECKING:
    from playwright.sync_api import Page

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
        found = {"machine": machine.describe(),
                 "many": _many(Path(folder), options.segments),
                 "long": _long(Path(folder), options.long)}
    (HERE / "results.json").write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    pages.fill(HERE / "README.md", tables(found))


def tables(found: dict[str, Any]) -> dict[str, str]:
    """The tables of README.md by their names."""
    return {"machine": pages.machine_line(found["machine"]), "many": _many_table(found["many"]),
            "long": _long_table(found["long"])}


def _many_table(found: dict[str, Any]) -> str:
    browser = found["browser"]
    scroll = browser["scroll"]
    rows = [
        ["page", f"{found['page_mb']:.1f} MB"],
        ["`minrisk inspect`", _cost(found["command"])],
        ["first row, after the start of loading", f"{browser['first_row_ms'] / 1000:.2f} s"],
        ["everything opened, in idle time", f"{browser['opening_cpu_ms'] / 1000:.1f} s of CPU, "
         f"{_blocked(browser['long_tasks_ms_opening'])}"],
        ["scroll by 1,500 pixels a frame", f"{scroll['median_frame_ms']:.1f} ms a frame (median), "
         f"{scroll['largest_frame_ms']:.0f} ms (largest), "
         f"{scroll['cpu_ms'] / scroll['frames']:.0f} ms of CPU, "
         f"{_blocked(browser['long_tasks_ms_scrolling'])}"],
        ["search through all texts", f"{browser['first_search']['ms']:.0f} ms, "
         f"{_blocked(browser['long_tasks_ms_searching'])}"]]
    return pages.table(
        [f"{found['segments']:,} segments, {found['samples']} samples shown", ""], rows)


def _long_table(found: dict[str, Any]) -> str:
    counts = (found["segments"] // 2, found["segments"])
    commands = {"`minrisk decode`": found["decode"], **{
        f"`minrisk inspect`, {count} segments": found[f"inspect {count}"] for count in counts}}
    rows = [[name, f"{own['wall_s']:.1f} s", f"{own['cpu_s']:.1f} s", f"{own['peak_mb']:.0f} MB"]
            for name, own in commands.items()]
    head = [f"{found['segments']} segments of {found['samples']:,} samples", "clock", "CPU",
            "memory"]
    return (f"{pages.table(head, rows)}\n\nOf {found['segments']} segments, `inspect` takes "
            f"{found['times_decode_wall_s']:.1f} times as long as `decode` by the clock, and "
            f"{found['times_decode_cpu_s']:.1f} times its CPU time.")


def _cost(command: dict[str, float]) -> str:
    return (f"{command['wall_s']:.0f} s by the clock, {command['cpu_s']:.0f} s of CPU, "
            f"{command['peak_mb']:.0f} MB")


def _blocked(long_tasks: list[float]) -> str:
    return f"long tasks of {sum(long_tasks):.0f} ms" if long_tasks else "no long task"


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
        found[f"inspect {count}"] = _command(
            "inspect", path, "-o", folder / f"long-{count}.html")
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
    from playwright.sync_api import sync_playwright

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
