#!/usr/bin/env python3
"""Kills workers and supervisor of a run of several workers again and again, and holds the end against a run alone.

    scripts/kill_storm.py [--kills 200] [--slots 4] [--seed 1] [--config configs/digits.toml] [--set key=value ...]

Half of the kills strike one worker, the others several, all, the supervisor, or both; some strike at a random moment,
some while a checkpoint is written, an evaluation runs or a recovery is under way. Checks: final model as undisturbed
with one worker; the journal has no gap; every checkpoint ever reported as committed is there and verifies; no process
and no shared memory is left. Prints the times of recovery and exits 1 if anything is wrong.
TRAINER names the binary (default target/release/trainer).
"""

import argparse
import json
import os
import random
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from runs import ROOT, TRAINER, settings, shown, train_alone, trainer

PATIENCE = 60


def children(pid):
    try:
        return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    except OSError:
        return []


def kill(pids):
    for pid in pids:
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            pass


def gone(pid):
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] == "Z"
    except OSError:
        return True


class Run:
    """A run that is started anew whenever its supervisor is killed."""

    def __init__(self, folder, args):
        self.folder, self.args, self.orphans, self.resumes = Path(folder), args, 0, []
        self.process = self.start("run", args.config, *settings(args.set))
        until = time.time() + PATIENCE
        while not (journals := list(self.folder.glob("*/events.jsonl"))) and time.time() < until:
            time.sleep(0.01)
        self.journal, self.read, self.lines = journals[0], 0, []

    def start(self, *words):
        return subprocess.Popen([TRAINER, *words, "--quiet", "--slots", str(self.args.slots), "--runs-dir", str(self.folder)], cwd=ROOT)

    def news(self):
        """Events since the last call."""
        with open(self.journal, "rb") as file:
            file.seek(self.read)
            data = file.read()
        data = data[: data.rfind(b"\n") + 1]
        self.read += len(data)
        found = [json.loads(line) for line in data.splitlines()]
        self.lines.extend(found)
        return [entry["event"] for entry in found]

    def wait_for(self, kinds, limit):
        """Whether one of these events comes in time."""
        until = time.time() + limit
        while time.time() < until and self.process.poll() is None:
            if any(kind in event for event in self.news() for kind in kinds):
                return True
            time.sleep(0.001)
        return False

    def kill_supervisor(self, workers_too):
        workers = children(self.process.pid)
        kill(([*workers] if workers_too else []) + [self.process.pid])
        self.process.wait()
        until = time.time() + 2
        while not all(gone(pid) for pid in workers) and time.time() < until:
            time.sleep(0.005)
        self.orphans += sum(not gone(pid) for pid in workers)
        self.news()
        begun = time.time()
        self.process = self.start("resume", self.journal.parent.name)
        if self.wait_for(["step_finished"], PATIENCE):
            self.resumes.append(time.time() - begun)


def strike(run, dice):
    """One kill; says what it was."""
    moment = dice.choice(["any", "any", "checkpoint", "evaluation", "recovery"])
    if moment == "any":
        time.sleep(dice.uniform(0, 0.4))
    elif moment != "recovery":
        # Evaluation comes before the checkpoint of its step: what is waited for has just begun or ended.
        run.wait_for(["evaluated" if moment == "evaluation" else "checkpoint_committed"], 2)
        time.sleep(dice.uniform(0, 0.03))
    workers = children(run.process.pid)
    whom = dice.choice(["one", "one", "one", "several", "all", "supervisor", "both"])
    if whom in ("supervisor", "both"):
        run.kill_supervisor(whom == "both")
    elif workers:
        victims = dice.sample(workers, {"one": 1, "several": dice.randint(1, len(workers)), "all": len(workers)}[whom])
        kill(victims)
        if moment == "recovery":
            time.sleep(dice.uniform(0, 0.12))
            kill(dice.sample(workers := children(run.process.pid), min(1, len(workers))))
    return f"{whom} ({moment})"


def problems_of(run, expected):
    found = []
    end = shown(run.folder)
    if end["state"] != "completed":
        found.append(f"the run is {end['state']}: {end['reason']}")
    if end["model_sha256"] != expected:
        found.append(f"the model is {end['model_sha256']}, alone it is {expected}")
    if [entry["seq"] for entry in run.lines] != list(range(len(run.lines))):
        found.append("the journal has gaps")
    committed = {entry["event"]["checkpoint_committed"]["directory"] for entry in run.lines if "checkpoint_committed" in entry["event"]}
    lost = [name for name in committed if not (run.journal.parent / "checkpoints" / name / "MANIFEST.json").exists()]
    found += [f"checkpoint {name} is gone" for name in lost]
    trainer("checkpoints", "verify", run.journal.parent.name, "--runs-dir", str(run.folder))
    if run.orphans:
        found.append(f"{run.orphans} workers outlived their supervisor by 2 s")
    left = subprocess.run(["pgrep", "-fc", str(run.folder)], capture_output=True, text=True).stdout.strip()
    if left != "0":
        found.append(f"{left} processes are left")
    return found, len(committed)


def quantile(values, share):
    return sorted(values)[min(len(values) - 1, int(share * len(values)))] if values else float("nan")


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--kills", type=int, default=200)
    parser.add_argument("--slots", type=int, default=4)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--config", default="configs/digits.toml")
    parser.add_argument("--set", action="append", default=[])
    args = parser.parse_args()
    args.set = ["train.shards=8", "train.epochs=200", 'log.every="1 step"', 'checkpoint.every="20 steps"', "checkpoint.keep.latest=100000",
                "recovery.max_restarts=1000000", *args.set]
    dice = random.Random(args.seed)
    shared = set(os.listdir("/dev/shm"))
    with tempfile.TemporaryDirectory() as work:
        expected = train_alone(args.config, f"{work}/alone", args.set)
        run, struck = Run(f"{work}/storm", args), {}
        for count in range(args.kills):
            if run.process.poll() is not None:
                break
            what = strike(run, dice)
            struck[what] = struck.get(what, 0) + 1
            if not run.wait_for(["step_finished"], PATIENCE) and run.process.poll() is None:
                print(f"PROBLEM: no step within {PATIENCE} s after kill {count + 1}: {what}")
                break
        code = run.process.wait(600)
        run.news()
        problems, committed = problems_of(run, expected)
        if code != 0:
            problems.append(f"exit code {code}")
        if sum(struck.values()) < args.kills:
            problems.append(f"only {sum(struck.values())} kills took place: raise train.epochs")
        if new := set(os.listdir("/dev/shm")) - shared:
            problems.append(f"left in shared memory: {new}")
        recovered = [entry["event"]["recovered"]["timing"] for entry in run.lines if "recovered" in entry["event"]]
    seconds = [timing["regroup"] + timing["transfer"] + timing["first_step"] for timing in recovered]
    print(f"{sum(struck.values())} kills: {dict(sorted(struck.items()))}")
    print(f"recoveries from memory: {len(seconds)}, median {statistics.median(seconds or [0]):.3f} s, 95th percentile {quantile(seconds, 0.95):.3f} s, "
          f"largest {max(seconds or [0]):.3f} s from the loss to the next finished step")
    print(f"resumes: {len(run.resumes)}, median {statistics.median(run.resumes or [0]):.3f} s, 95th percentile {quantile(run.resumes, 0.95):.3f} s "
          "from `trainer resume` to the next finished step")
    print(f"{len(run.lines)} journal entries, {committed} checkpoints committed, {run.orphans} orphans")
    for problem in problems:
        print("PROBLEM:", problem)
    print("FAILED" if problems else "passed")
    sys.exit(1 if problems else 0)


if __name__ == "__main__":
    main()
