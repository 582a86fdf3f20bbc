#!/usr/bin/env python3
"""How much faster several workers are than one, each with one thread: medians of step times, in turns.

    scripts/measure_scaling.py [--config configs/text.toml] [--workers 2] [--steps 20] [--rounds 3] [--set key=value ...]

Both kinds of run compute the same shards; their weights must be equal. TRAINER names the binary.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
TRAINER = os.environ.get("TRAINER", str(ROOT / "target/release/trainer"))
# The first steps warm caches and allocate.
SKIPPED = 3


def run(args, folder, workers):
    settings = [f"train.shards={args.workers}", f"train.steps={args.steps}", "resources.threads=1", 'eval.every="never"',
                'checkpoint.every="never"', 'log.every="1 step"', *args.set]
    words = [word for change in settings for word in ("--set", change)]
    subprocess.run([TRAINER, "run", args.config, "--quiet", "--runs-dir", folder, "--slots", str(workers), *words], cwd=ROOT, check=True)
    journal = next(Path(folder).glob("*/events.jsonl"))
    entries = [json.loads(line)["event"] for line in journal.read_text().splitlines()]
    reports = [entry["step_finished"] for entry in entries if "step_finished" in entry][SKIPPED:]
    shown = json.loads(subprocess.run([TRAINER, "show", "latest", "--runs-dir", folder, "--json"], capture_output=True, text=True, check=True).stdout)
    return statistics.median(report["seconds"] for report in reports), statistics.median(report["phases"]["reduce"] for report in reports), shown["model_sha256"]


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--config", default="configs/text.toml")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--set", action="append", default=[])
    args = parser.parse_args()
    ratios, hashes = [], set()
    for _ in range(args.rounds):
        times = []
        for workers in (1, args.workers):
            with tempfile.TemporaryDirectory() as folder:
                seconds, reduce, model = run(args, folder, workers)
            hashes.add(model)
            times.append(seconds)
            print(f"{workers} worker{'s' * (workers > 1)}: {1000 * seconds:.1f} ms a step, {1000 * reduce:.1f} ms of it reduction", flush=True)
        ratios.append(times[0] / times[1])
    print(f"{args.workers} workers make {statistics.median(ratios):.2f} times the steps of one ({min(ratios):.2f} to {max(ratios):.2f}), "
          f"weights {'identical' if len(hashes) == 1 else 'DIFFERENT'}")
    sys.exit(0 if len(hashes) == 1 else 1)


if __name__ == "__main__":
    main()
