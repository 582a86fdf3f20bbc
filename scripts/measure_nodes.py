#!/usr/bin/env python3
"""Trains on several hosts that are network namespaces of this machine, and holds the weights against a run alone.

    sudo scripts/measure_nodes.py [--nodes 3] [--slots 2] [--config configs/digits.toml] [--set key=value ...]

First undisturbed, then with the cable of one host cut in the middle of a step (its packets are dropped, nothing is
refused), then with the cable put back. Needs root and `ip`. Prints one line per run; exits 1 when weights differ, a
run fails or a process is left behind.
"""

import argparse
import os
import secrets
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from runs import ROOT, TRAINER, events, settings, shown, train_alone

BRIDGE = "trn-br"


def sh(text):
    subprocess.run(text.split(), check=True)


class Hosts:
    """Namespaces with one cable each into a common switch."""

    def __init__(self, count):
        self.count = count
        sh(f"ip link add {BRIDGE} type bridge")
        sh(f"ip link set {BRIDGE} up")
        for k in range(count):
            sh(f"ip netns add trn-{k}")
            sh(f"ip link add trn-v{k} type veth peer name eth0 netns trn-{k}")
            sh(f"ip link set trn-v{k} master {BRIDGE} up")
            sh(f"ip -n trn-{k} addr add 10.77.0.{k + 1}/24 dev eth0")
            sh(f"ip -n trn-{k} link set eth0 up")
            sh(f"ip -n trn-{k} link set lo up")

    def cut(self, k):
        # Taken off the switch, the cable still has a carrier: packets vanish.
        sh(f"ip link set trn-v{k} nomaster")

    def mend(self, k):
        sh(f"ip link set trn-v{k} master {BRIDGE}")

    def close(self):
        for k in range(self.count):
            subprocess.run(["ip", "netns", "del", f"trn-{k}"], check=False)
        subprocess.run(["ip", "link", "del", BRIDGE], check=False)


def start(args, folder, token):
    nodes = []
    for k in range(args.nodes):
        command = ["ip", "netns", "exec", f"trn-{k}", TRAINER, "run", args.config, "--quiet", "--runs-dir", f"{folder}/node{k}",
                   "--slots", str(args.slots), "--nnodes", str(args.nodes), "--node-rank", str(k), "--rendezvous", "10.77.0.1:29876",
                   *settings(args.set)]
        nodes.append(subprocess.Popen(command, cwd=ROOT, env={**os.environ, "TRAINER_TOKEN": token}))
    return nodes


def told(folder):
    journals = list(Path(folder).glob("node0/*/events.jsonl"))
    return events(journals[0]) if journals else []


def wait_for(folder, what, accept, limit=60):
    until = time.time() + limit
    while time.time() < until:
        for event in told(folder):
            if what in event and accept(event[what]):
                return event[what]
        time.sleep(0.02)
    sys.exit(f"FAILED: no {what} within {limit} s")


def finish(name, folder, nodes, expected):
    codes = [node.wait(300) for node in nodes]
    end = shown(f"{folder}/node0")
    recoveries = [event["recovered"] for event in told(folder) if "recovered" in event]
    same = end["model_sha256"] == expected
    print(f"{name}: exit codes {codes}, {end['state']}, {len(recoveries)} recoveries, attempts {end['attempts']}, "
          f"weights {'identical' if same else 'DIFFERENT'}", flush=True)
    for event in recoveries:
        print(f"  step {event['step']}, {event['world_size']} workers: {event['cause']}; {event['timing']}")
    return same and codes[0] == 0


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--nodes", type=int, default=3)
    parser.add_argument("--slots", type=int, default=2)
    parser.add_argument("--config", default="configs/digits.toml")
    parser.add_argument("--set", action="append", default=[])
    args = parser.parse_args()
    args.set = [f"train.shards={args.nodes * args.slots}", "log.every=\"1 step\"", *args.set]
    token, good = secrets.token_hex(32), True
    with tempfile.TemporaryDirectory() as work:
        expected = train_alone(args.config, f"{work}/alone", args.set)
        hosts = Hosts(args.nodes)
        try:
            calm = f"{work}/calm"
            good &= finish("undisturbed", calm, start(args, calm, token), expected)
            storm = f"{work}/storm"
            nodes = start(args, storm, token)
            wait_for(storm, "step_finished", lambda report: report["step"] >= 40)
            hosts.cut(args.nodes - 1)
            cut = time.time()
            wait_for(storm, "recovered", lambda event: event["world_size"] == (args.nodes - 1) * args.slots)
            print(f"  went on without the host that was cut off after {time.time() - cut:.1f} s")
            hosts.mend(args.nodes - 1)
            good &= finish("one host cut off, then back", storm, nodes, expected)
        finally:
            hosts.close()
        left = subprocess.run(["pgrep", "-fc", work], capture_output=True, text=True).stdout.strip()
        if left not in ("", "0"):
            print(f"{left} processes are left")
            good = False
    print("passed" if good else "FAILED")
    sys.exit(0 if good else 1)


if __name__ == "__main__":
    main()
