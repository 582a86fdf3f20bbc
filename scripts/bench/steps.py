#!/usr/bin/env python3
"""Compares training steps with PyTorch's (eager, CPU, 32-bit), alternating in one run.

    python scripts/bench/steps.py [gpt resnet20 mlp digits start] [--binary PATH] [--python PATH] [--rounds 5]

Run it in the root of the repository. In each round one process of each side trains the same model (configs/bench,
scripts/bench/torch_models.py), one after the other. A ratio is ours over theirs, below 1 where we need less: of the medians
over all rounds, with the least and the greatest of the ratios within a round, so that a noisy machine shows. Memory is
the peak resident set (VmHWM) of each process. `start` is the time from process start to the end of the first step of the
digits in assets/, as whoever started the process sees it: `trainer run` and a Python script that trains the same network.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time

# Steps that are measured, and steps of the warm-up, of a process.
STEPS = {"gpt": (10, 3), "resnet20": (10, 3), "mlp": (100, 20), "digits": (100, 20)}


def answer(command):
    """The JSON object that a command prints."""
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"{' '.join(command)} failed:\n{done.stderr}")
    return json.loads(done.stdout)


def seconds_until(command, said):
    """Seconds from the start of a process to the first line that holds a text; waits for its end."""
    start = time.perf_counter()
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        for line in process.stdout:
            if said in line:
                found = time.perf_counter() - start
                process.stdout.read()
                return found
        sys.exit(f"{' '.join(command)} never said {said!r}:\n{process.stderr.read()}")


def ours(args, workload):
    steps, warmup = STEPS[workload]
    config = f"configs/bench/{workload}.toml"
    counts = ["--steps", str(steps), "--warmup", str(warmup)]
    return answer([args.binary, "bench", config, "--json", *counts, "--set", f"resources.threads={args.threads}"])


def theirs(args, workload):
    steps, warmup = STEPS[workload]
    script = os.path.join(os.path.dirname(__file__), "torch_steps.py")
    counts = ["--steps", str(steps), "--warmup", str(warmup), "--threads", str(args.threads)]
    return answer([args.python, script, workload, *counts])


def first_step(args):
    """Milliseconds to the end of the first step, of both."""
    with tempfile.TemporaryDirectory() as runs:
        run = [args.binary, "run", "configs/digits.toml", "--json", "--runs-dir", runs]
        changes = ["train.steps=1", 'log.every="1 step"', f"resources.threads={args.threads}"]
        our_ms = 1e3 * seconds_until(run + [word for change in changes for word in ("--set", change)], '"step_finished"')
    script = os.path.join(os.path.dirname(__file__), "torch_steps.py")
    their_ms = 1e3 * seconds_until(
        [args.python, script, "digits", "--first-step", "--threads", str(args.threads)], "first step"
    )
    return our_ms, their_ms


def shown(pairs):
    """Medians of both sides and their ratio, with its spread over the rounds."""
    ours_median = statistics.median(pair[0] for pair in pairs)
    theirs_median = statistics.median(pair[1] for pair in pairs)
    ratios = [one / other for one, other in pairs]
    return {
        "ours": round(ours_median, 4),
        "torch": round(theirs_median, 4),
        "ratio": round(ours_median / theirs_median, 4),
        "least": round(min(ratios), 4),
        "greatest": round(max(ratios), 4),
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("workloads", nargs="*", default=[*STEPS, "start"])
    parser.add_argument("--binary", default="target/release/trainer")
    parser.add_argument("--python", default=sys.executable, help="interpreter that has torch")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    unknown = set(args.workloads) - {*STEPS, "start"}
    if unknown or args.rounds < 1:
        parser.error(f"no such workload: {', '.join(sorted(unknown))}" if unknown else "--rounds starts at 1")

    found = {}
    for workload in args.workloads:
        if workload == "start":
            first_step(args)  # once to fill the page cache
            found["start"] = {"start_ms": shown([first_step(args) for _ in range(args.rounds)])}
        else:
            rounds = [(ours(args, workload), theirs(args, workload)) for _ in range(args.rounds)]
            found[workload] = {
                "step_ms": shown([(a["step_ms"]["median"], b["step_ms"]["median"]) for a, b in rounds]),
                "peak_mb": shown([(a["peak_bytes"] / 1e6, b["peak_bytes"] / 1e6) for a, b in rounds]),
                "limit_share": round(statistics.median(a["limit_share"] for a, _ in rounds), 3),
            }
        if not args.json:
            for what, row in found[workload].items():
                if isinstance(row, dict):
                    row = (
                        f"{row['ours']:10.2f} torch {row['torch']:10.2f}  ratio {row['ratio']:.3f}"
                        f" ({row['least']:.3f} to {row['greatest']:.3f})"
                    )
                print(f"{workload:9} {what:11} {row}", flush=True)
    if args.json:
        print(json.dumps(found, indent=2))


if __name__ == "__main__":
    main()
