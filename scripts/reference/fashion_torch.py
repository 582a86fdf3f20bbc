#!/usr/bin/env python3
"""The network of configs/fashion.toml in PyTorch: its accuracy after each epoch and time per step.

    python scripts/reference/fashion_torch.py [--set train.epochs=3 ...] [--threads 2]

Reads the config; a CIFAR-style ResNet with 1x1 shortcuts and zero gain of the last normalisation of
each block, SGD with Nesterov momentum, mirrored images, as the trainer defines them. Validation
images are left out of training in the same share, chosen by numpy.
"""

import argparse
import gzip
import time
import tomllib
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn


def idx(path):
    raw = gzip.open(path).read()
    dims = [int.from_bytes(raw[4 + 4 * i : 8 + 4 * i], "big") for i in range(raw[3])]
    return np.frombuffer(raw, np.uint8, offset=4 + 4 * raw[3]).reshape(dims)


class Block(nn.Module):
    def __init__(self, before, after, stride):
        super().__init__()
        self.conv1 = nn.Conv2d(before, after, 3, stride, 1, bias=False)
        self.conv2 = nn.Conv2d(after, after, 3, 1, 1, bias=False)
        self.bn1, self.bn2 = nn.BatchNorm2d(after), nn.BatchNorm2d(after)
        nn.init.zeros_(self.bn2.weight)
        changed = before != after or stride != 1
        self.shortcut = nn.Sequential(nn.Conv2d(before, after, 1, stride, bias=False), nn.BatchNorm2d(after)) if changed else nn.Identity()

    def forward(self, x):
        y = self.bn2(self.conv2(F.relu(self.bn1(self.conv1(x)))))
        return F.relu(y + self.shortcut(x))


def resnet(depth, width, classes=10):
    layers = [nn.Conv2d(1, width, 3, 1, 1, bias=False), nn.BatchNorm2d(width), nn.ReLU()]
    before = width
    for stage in range(3):
        for block in range((depth - 2) // 6):
            after = width << stage
            layers.append(Block(before, after, 2 if stage and not block else 1))
            before = after
    net = nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(before, classes))
    for m in net.modules():
        if isinstance(m, nn.Conv2d):
            nn.init.kaiming_normal_(m.weight, mode="fan_out", nonlinearity="relu")
    return net


def rate_at(schedule, step, total, peak):
    warmup = schedule["warmup"].split()
    warmup = round(total * float(warmup[0]) / 100) if warmup[1] == "%" else int(warmup[0])
    if step < warmup:
        return peak * (step + 1) / warmup
    progress = min((step - warmup) / max(total - 1 - warmup, 1), 1.0)
    ratio = schedule.get("final_ratio", 0.0)
    if schedule["kind"] == "cosine":
        return peak * (ratio + (1 - ratio) * 0.5 * (1 + np.cos(np.pi * progress)))
    return peak * (1 + (ratio - 1) * progress)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--config", default="configs/fashion.toml")
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    text = Path(args.config).read_text()
    config = tomllib.loads(text)
    for change in args.set:
        key, value = change.split("=")
        place = config
        for part in key.split(".")[:-1]:
            place = place[part]
        place[key.split(".")[-1]] = tomllib.loads(f"v = {value}")["v"]
    torch.manual_seed(args.seed)
    torch.set_num_threads(args.threads)
    rng = np.random.default_rng(args.seed)
    data, train, opt, model = config["data"], config["train"], config["optimizer"], config["model"]
    x, y = idx(data["train"]) / np.float32(255), idx(data["train_labels"]).astype(np.int64)
    tx, ty = idx(data["test"]) / np.float32(255), idx(data["test_labels"]).astype(np.int64)
    kept = rng.permutation(len(x))[round(len(x) * data["validation"]) :]
    x, y = x[kept], y[kept]
    mean, std = x.mean(), x.std()
    x, tx = (torch.tensor((v - mean) / std)[:, None] for v in (x, tx))
    y, ty = torch.tensor(y), torch.tensor(ty)
    net = resnet(model["depth"], model["width"])
    batch = train["global_batch"]
    steps = -(-len(x) // batch)
    total = steps * train["epochs"]
    decayed = [p for p in net.parameters() if p.dim() > 1]
    rest = [p for p in net.parameters() if p.dim() == 1]
    sgd = torch.optim.SGD([{"params": decayed, "weight_decay": opt["weight_decay"]}, {"params": rest}],
                          lr=1.0, momentum=opt["momentum"], nesterov=opt["nesterov"])
    flip, padding = data["augment"].get("flip", 0.0), data["augment"].get("crop_padding", 0)
    begin, step = time.perf_counter(), 0
    for epoch in range(train["epochs"]):
        net.train()
        order = torch.tensor(rng.permutation(len(x)))
        for i in range(0, len(x), batch):
            ids = order[i : i + batch]
            b = x[ids]
            if flip:
                turned = torch.tensor(rng.random(len(ids)) < flip)[:, None, None, None]
                b = torch.where(turned, b.flip(-1), b)
            if padding:
                wide = F.pad(b, [padding] * 4, value=-mean / std)
                places = rng.integers(0, 2 * padding + 1, (len(ids), 2))
                b = torch.stack([wide[n, :, r : r + 28, c : c + 28] for n, (r, c) in enumerate(places)])
            for group in sgd.param_groups:
                group["lr"] = rate_at(config["schedule"], step, total, opt["learning_rate"])
            loss = F.cross_entropy(net(b), y[ids], label_smoothing=train.get("label_smoothing", 0.0))
            sgd.zero_grad()
            loss.backward()
            sgd.step()
            step += 1
            if step == 50:
                print(f"{1000 * (time.perf_counter() - begin) / step:.0f} ms per step", flush=True)
        seconds = time.perf_counter() - begin
        net.eval()
        with torch.no_grad():
            hits = sum((net(tx[i : i + 500]).argmax(1) == ty[i : i + 500]).sum().item() for i in range(0, len(tx), 500))
        print(f"epoch {epoch + 1}: loss {loss.item():.3f}, test accuracy {hits / len(tx):.4f}, {seconds:.0f} s, {1000 * seconds / step:.0f} ms per step", flush=True)


if __name__ == "__main__":
    main()
