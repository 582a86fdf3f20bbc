#!/usr/bin/env python3
"""How much faster several workers are than one, each with one thread: medians of step times, in turns.

    scripts/measure_scaling.py [--config configs/text.toml] [--workers 2] [--steps 20] [--rounds 3] [--set key=value ...]

Both kinds of run compute the same shards; their weights must be equal. TRAINER names the binary.
"""

import argparse
import statistics
import sys
import tempfile
from pathlib import Path

from runs import events, settings, shown, trainer

# The first steps warm caches and allocate.
SKIPPED = 3


def run(args, folder, workers):
    changes = [f"train.shards={args.workers}", f"train.steps={args.steps}", "resources.threads=1", 'eval.every="never"',
                'checkpoint.every="never"', 'log.every="1 step"', *args.set]
    trainer("run", args.config, "--quiet", "--runs-dir", folder, "--slots", str(workers), *settings(changes))
    journal = next(Path(folder).glob("*/events.jsonl"))
    reports = [event["step_finished"] for event in events(journal) if "step_finished" in event][SKIPPED:]
    return statistics.median(report["seconds"] for report in reports), statistics.median(report["phases"]["reduce"] for report in reports), shown(folder)["model_sha256"]


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
