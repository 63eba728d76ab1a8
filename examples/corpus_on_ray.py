"""A whole corpus on a Ray cluster: a shard for each file, the same bytes on any number of workers.

Needs `pip install 'minrisk[ray]'`. Without an address Ray starts on this machine for this run;
`python examples/corpus_on_ray.py auto` uses the cluster that this machine is part of. The command
is `minrisk decode 'in/*.jsonl' -o out/ --engine ray --address auto`.
"""

from __future__ import annotations

import json
import sys
import tempfile
from pathlib import Path

import stand_ins

import minrisk


def write_corpus(folder: Path, shards: int) -> None:
    folder.mkdir()
    segments = stand_ins.translations(segments=6, samples=64)
    for number in range(shards):
        lines = [json.dumps(segment) + "\n" for segment in segments[number::shards]]
        (folder / f"part-{number}.jsonl").write_text("".join(lines), encoding="utf-8")


def main(address: str | None = None) -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_corpus(folder / "in", shards=3)
        for engine in ("local", "ray"):
            summary = minrisk.decode_corpus(
                f"{folder}/in/*.jsonl", output=f"{folder}/{engine}/", workers=2, engine=engine,
                address=address if engine == "ray" else None, resume=True)
            print(f"{engine}: {summary.segments} segments, {summary.failed} failed, "
                  f"{summary.counts['pairs']} pairs")
        for path in sorted((folder / "ray").glob("part-*.jsonl")):
            same = path.read_bytes() == (folder / "local" / path.name).read_bytes()
            first = json.loads(path.read_text(encoding="utf-8").splitlines()[0])
            print(f"{path.name}: {'equal' if same else 'different'}; {first['text']}")


if __name__ == "__main__":
    main(*sys.argv[1:])
