#!/usr/bin/env python3
"""Compares our all-reduce with gloo's, alternating in one run, and prints one JSON document.

    python scripts/bench/allreduce.py [--binary PATH] [--rounds 7] [--quick]

Needs PyTorch (CPU) in the Python that runs it. Each pair of a number of processes and a transport runs gloo and
our binary in turns, one block each, while the other one sleeps; a ratio is taken within each turn, so that a noisy
machine disturbs both of its sides. Times are medians of a block as rank 0 sees them, in microseconds; those of small
calls are means of 20 in a row.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import time

FLOATS = 33 * 1024 * 1024 // 4
SMALL_ROWS, SMALL_CALLS = 20, 20


def gloo_rank(rank, world, floats, per_block, store):
    """One process of the gloo group: rank 0 measures a block for each line on standard input."""
    import torch
    import torch.distributed as dist

    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{store}", rank=rank, world_size=world)
    vector = torch.full((floats,), 1.5)
    small = torch.full((1024,), 1.5)
    message = torch.zeros(4096, dtype=torch.uint8)
    gathered = [torch.empty_like(message) for _ in range(world)]

    def times(rows, calls, call):
        found = []
        for _ in range(rows):
            dist.barrier()
            start = time.perf_counter()
            for _ in range(calls):
                call()
            found.append((time.perf_counter() - start) * 1e6 / calls)
        return found

    go = torch.zeros(1)
    while True:
        if rank == 0:
            go[0] = float(bool(sys.stdin.readline()))
        dist.broadcast(go, 0)
        if not go[0]:
            break
        vector.fill_(1.5)
        block = {
            "sum_us": times(per_block, 1, lambda: dist.all_reduce(vector)),
            "small_sum_us": times(SMALL_ROWS, SMALL_CALLS, lambda: dist.all_reduce(small.fill_(1.5))),
            "small_gather_us": times(SMALL_ROWS, SMALL_CALLS, lambda: dist.all_gather(gathered, message)),
            "barrier_us": times(SMALL_ROWS, SMALL_CALLS, dist.barrier),
        }
        if rank == 0:
            print(json.dumps(block), flush=True)
    dist.destroy_process_group()


class Group:
    """A group of processes whose rank 0 answers each line with the measurements of a block."""

    def __init__(self, commands):
        pipe = subprocess.PIPE
        self.processes = [
            subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True) for command in commands
        ]

    def block(self):
        leader = self.processes[0]
        leader.stdin.write("go\n")
        leader.stdin.flush()
        line = leader.stdout.readline()
        while line and not line.startswith("{"):  # gloo announces its connections there
            line = leader.stdout.readline()
        answer = json.loads(line)
        return {key: statistics.median(value) for key, value in answer.items() if isinstance(value, list)}

    def close(self):
        for process in self.processes:
            process.stdin.close()
        for process in self.processes:
            process.wait(timeout=60)


def gloo(world, floats, per_block):
    store = f"/tmp/allreduce-gloo-{os.getpid()}-{world}-{time.monotonic_ns()}"
    common = [str(world), str(floats), str(per_block), store]
    group = Group([[sys.executable, __file__, "--gloo-rank", str(rank), *common] for rank in range(world)])
    group.store = store
    return group


def compare(binary, world, transport, rounds, per_block):
    """Turns of one setting: medians of both sides, and the ratio with its least and greatest."""
    theirs = gloo(world, FLOATS, per_block)
    ours = Group([[binary, transport, str(world), str(FLOATS), str(per_block)]])
    try:
        theirs.block(), ours.block()  # memory is touched, connections are warm
        turns = [(theirs.block(), ours.block()) for _ in range(rounds)]
    finally:
        theirs.close()
        ours.close()
        if os.path.exists(theirs.store):
            os.remove(theirs.store)
    result = {"world": world, "transport": transport, "bytes": FLOATS * 4}
    for key in turns[0][0]:
        ratios = [their[key] / our[key] for their, our in turns]
        result[key] = {
            "gloo": round(statistics.median(their[key] for their, _ in turns), 1),
            "ours": round(statistics.median(our[key] for _, our in turns), 1),
            "ratio": round(statistics.median(ratios), 2),
            "ratio_min": round(min(ratios), 2),
            "ratio_max": round(max(ratios), 2),
        }
    return result


def main():
    if len(sys.argv) > 1 and sys.argv[1] == "--gloo-rank":
        rank, world, floats, per_block = map(int, sys.argv[2:6])
        gloo_rank(rank, world, floats, per_block, sys.argv[6])
        return
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    root = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")
    parser.add_argument("--binary", help="benches/allreduce.rs, built; built here if not given")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--per-block", type=int, default=15)
    parser.add_argument("--quick", action="store_true", help="2 rounds of 5: whether it runs at all")
    arguments = parser.parse_args()
    rounds, per_block = (2, 5) if arguments.quick else (arguments.rounds, arguments.per_block)
    results = [
        compare(arguments.binary, world, transport, rounds, per_block)
        for world in (2, 4)
        for transport in ("shm", "tcp")
    ]
    json.dump({"cores": os.cpu_count(), "load": os.getloadavg(), "results": results}, sys.stdout, indent=1)
    print()


if __name__ == "__main__":
    main()
