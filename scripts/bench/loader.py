#!/usr/bin/env python3
"""Compares the way from files to batches with torch's DataLoader on the same files, alternating in one run.

    python scripts/bench/loader.py [folder digits adult] [--binary PATH] [--python PATH] [--rounds 5] [--seconds 4]

Run it in the root of the repository. `folder` makes JPEG files of 500 x 375 in a scratch folder; each sample is decoded,
resized to 224 x 224, cropped with a padding of 16, flipped and normalised, by two workers of a DataLoader (Pillow and
torchvision) and by two threads of ours. `digits` and `adult` are held in memory by both sides once they are read. A ratio is
our samples per second over theirs, above 1 where we are faster: of the medians, with its spread over the rounds. Those per
second of processor time (all processes of a side) are much the same on a machine that others use, too.
"""

import argparse
import gzip
import json
import multiprocessing
import os
import statistics
import subprocess
import sys
import tempfile
import time

SIDE, PADDING, BATCH = 224, 16, 64
MEAN, STD = [0.485, 0.456, 0.406], [0.229, 0.224, 0.225]

FOLDER_CONFIG = """
name = "bench-folder"
[data]
kind = "images"
format = "folder"
train = "{folder}"
size = [{side}, {side}]
channels = 3
normalize = {{ mean = {mean}, std = {std} }}
augment = {{ flip = 0.5, crop_padding = {padding} }}
[model]
kind = "resnet"
depth = 18
stem = "imagenet"
[train]
steps = 1
global_batch = {batch}
"""


def make_pictures(folder, count):
    """JPEG files with noise on every scale, as photographs have it."""
    import random

    from PIL import Image

    random.seed(1)
    width, height = 500, 375
    for number in range(count):
        picture = Image.new("RGB", (width, height), (128, 128, 128))
        for scale, weight in ((64, 0.5), (24, 0.4), (8, 0.3), (3, 0.2), (1, 0.06)):
            size = (width // scale + 2, height // scale + 2)
            noise = Image.frombytes("RGB", size, random.randbytes(3 * size[0] * size[1]))
            noise = noise.resize((width, height), Image.BICUBIC)
            picture = Image.blend(picture, noise, weight)
        place = os.path.join(folder, f"class{number % 4}")
        os.makedirs(place, exist_ok=True)
        picture.save(os.path.join(place, f"{number:04}.jpg"), quality=85)


def torch_set(workload, folder):
    """A data set as one would write it for a DataLoader."""
    import torch
    from torch.utils.data import TensorDataset

    if workload == "folder":
        from torchvision import datasets, transforms

        steps = transforms.Compose(
            [
                transforms.Resize((SIDE, SIDE)),
                transforms.RandomCrop(SIDE, padding=PADDING),
                transforms.RandomHorizontalFlip(),
                transforms.ToTensor(),
                transforms.Normalize(MEAN, STD),
            ]
        )
        return datasets.ImageFolder(folder, steps)
    if workload == "digits":
        from torch_steps import digits_of_assets

        return TensorDataset(*digits_of_assets())
    with gzip.open("assets/data/adult/train.csv.gz", "rt") as file:
        lines = [line.rstrip("\n").split(",") for line in file]
    header, rows = lines[0], lines[1:]
    columns = list(zip(*rows))
    label = header.index("income")
    numbers, codes = [], []
    for place, column in enumerate(columns):
        if place == label or header[place] == "fnlwgt":
            continue
        try:
            values = torch.tensor([float(value) for value in column])
            numbers.append((values - values.mean()) / values.std())
        except ValueError:
            known = {value: code for code, value in enumerate(sorted(set(column)))}
            codes.append(torch.tensor([known[value] for value in column]))
    classes = sorted(set(columns[label]))
    targets = torch.tensor([classes.index(value) for value in columns[label]])
    return TensorDataset(torch.stack(numbers, 1), torch.stack(codes, 1), targets)


def processor_seconds(pids):
    """Processor time of processes so far."""
    total = 0.0
    for pid in pids:
        with open(f"/proc/{pid}/stat") as stat:
            fields = stat.read().rsplit(")", 1)[1].split()
        total += (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
    return total


def torch_side(workload, folder, seconds, batch):
    import torch
    from torch.utils.data import DataLoader

    torch.manual_seed(0)
    data = torch_set(workload, folder)
    loader = DataLoader(data, batch_size=batch, shuffle=True, num_workers=2, persistent_workers=True)

    def batches():
        while True:
            yield from loader

    count, start, cores, pids = 0, None, 0.0, []
    for batch in batches():
        if start is None:
            pids = [os.getpid(), *(child.pid for child in multiprocessing.active_children())]
            start, cores = time.perf_counter(), processor_seconds(pids)
            continue
        count += len(batch[-1])
        if time.perf_counter() - start >= seconds:
            break
    elapsed, cores = time.perf_counter() - start, processor_seconds(pids) - cores
    print(json.dumps({"samples_per_s": count / elapsed, "samples_per_core_s": count / max(cores, 1e-3)}))


def answer(command):
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"{' '.join(command)} failed:\n{done.stderr}")
    return json.loads(done.stdout)


def compare(args, workload, folder):
    config, batch = f"configs/{workload}.toml", {"digits": 64, "adult": 256}.get(workload, BATCH)
    if workload == "folder":
        config = os.path.join(folder, "folder.toml")
        pictures = os.path.join(folder, "pictures")
        made = [args.python, __file__, "--make", str(args.pictures), "--folder", pictures]
        subprocess.run(made, check=True)
        with open(config, "w") as file:
            values = {"folder": pictures, "side": SIDE, "mean": MEAN, "std": STD, "padding": PADDING, "batch": BATCH}
            file.write(FOLDER_CONFIG.format(**values))
        folder = pictures
    seconds = ["--seconds", str(args.seconds)]
    our_command = [args.binary, "data", "bench", config, "--json", *seconds, "--set", "resources.threads=2"]
    their_command = [args.python, __file__, "--torch", workload, "--folder", folder, "--batch", str(batch), *seconds]
    pairs = [(answer(our_command), answer(their_command)) for _ in range(args.rounds)]
    return {what: shown(what, pairs) for what in ("samples_per_s", "samples_per_core_s")}


def shown(what, pairs):
    """Medians of both sides and their ratio, with its spread over the rounds."""
    ours = statistics.median(one[what] for one, _ in pairs)
    theirs = statistics.median(other[what] for _, other in pairs)
    ratios = [one[what] / other[what] for one, other in pairs]
    return {
        "ours": round(ours, 1),
        "torch": round(theirs, 1),
        "ratio": round(ours / theirs, 3),
        "least": round(min(ratios), 3),
        "greatest": round(max(ratios), 3),
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("workloads", nargs="*", default=["folder", "digits", "adult"])
    parser.add_argument("--binary", default="target/release/trainer")
    parser.add_argument("--python", default=sys.executable, help="interpreter that has torch, torchvision and Pillow")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=int, default=4)
    parser.add_argument("--pictures", type=int, default=256, help="files of `folder`")
    parser.add_argument("--torch", help=argparse.SUPPRESS)
    parser.add_argument("--make", type=int, default=0, help=argparse.SUPPRESS)
    parser.add_argument("--folder", default="", help=argparse.SUPPRESS)
    parser.add_argument("--batch", type=int, default=BATCH, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.make:
        make_pictures(args.folder, args.make)
        return
    if args.torch:
        torch_side(args.torch, args.folder, args.seconds, args.batch)
        return
    found = {}
    for workload in args.workloads:
        with tempfile.TemporaryDirectory() as folder:
            found[workload] = compare(args, workload, folder)
    print(json.dumps(found, indent=2))


if __name__ == "__main__":
    main()
