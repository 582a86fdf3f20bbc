#!/usr/bin/env python3
"""Training steps of one model of torch_models.py in PyTorch (eager); prints one JSON object.

    python scripts/bench/torch_steps.py gpt|resnet20|mlp|digits [--steps 20] [--warmup 5] [--threads 2]

With --first-step the model is `digits` on the files in assets/: it prints a line at the end of the first step.
"""

import argparse
import gzip
import json
import time


def peak_bytes():
    with open("/proc/self/status") as status:
        line = next(line for line in status if line.startswith("VmHWM:"))
    return int(line.split()[1]) * 1024


def digits_of_assets():
    """The pictures and labels of assets/ with the moments of configs/digits.toml."""
    import torch

    def read(name, header):
        with gzip.open(f"assets/data/digits/{name}-ubyte.gz") as file:
            return torch.frombuffer(bytearray(file.read()[header:]), dtype=torch.uint8)

    images = read("images-idx3", 16).view(-1, 1, 8, 8).float() / 255
    return (images - images.mean()) / images.std(), read("labels-idx1", 8).long()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("workload")
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--warmup", type=int, default=5)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--first-step", action="store_true")
    args = parser.parse_args()

    import torch
    import torch.nn.functional as F
    from torch_models import WORKLOADS

    torch.set_num_threads(args.threads)
    torch.manual_seed(0)
    model, count, draw, batch, optimizer = WORKLOADS[args.workload]
    inputs, targets = digits_of_assets() if args.first_step else draw(count)
    count = len(inputs)
    model = model()
    optimizer = optimizer(model.parameters())

    def steps():
        while True:
            order = torch.randperm(count)
            for start in range(0, count - batch + 1, batch):
                chosen = order[start : start + batch]
                optimizer.zero_grad()
                loss = F.cross_entropy(model(inputs[chosen]), targets[chosen].flatten())
                loss.backward()
                optimizer.step()
                yield loss.item()

    if args.first_step:
        loss = next(steps())
        print("first step", loss, flush=True)
        return
    times = []
    start = None
    for done, loss in enumerate(steps()):
        now = time.perf_counter()
        if done >= args.warmup and start is not None:
            times.append(1e3 * (now - start))
        if len(times) == args.steps:
            break
        start = now
    assert loss == loss, "the loss is not a number"
    quantiles = torch.tensor(times, dtype=torch.float64).quantile(torch.tensor([0.5, 0.1, 0.9], dtype=torch.float64))
    median, p10, p90 = quantiles.tolist()
    step_ms = {"median": median, "p10": p10, "p90": p90}
    print(json.dumps({"torch": torch.__version__, "step_ms": step_ms, "peak_bytes": peak_bytes()}))


if __name__ == "__main__":
    main()
