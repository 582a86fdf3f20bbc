#!/usr/bin/env python3
"""A PyTorch GPT of the shape of configs/text.toml, for comparing loss curves and speed.

    python scripts/reference/text_torch.py [--steps 300] [--seeds 3] [--out torch.json]
    python scripts/reference/text_torch.py --compare torch.json METRICS.jsonl ...

Reads sizes, batch, optimiser and schedule from the config. Held-out blocks, initial weights and
order are those of the trainer for the same seed (trainer_random.py), or, with --own-random, drawn
by torch and numpy from the same distributions. Prints the loss of each window of steps, and the
time per step.

The second form reads what `trainer metrics RUN --json` printed for runs with different seeds and
prints the ratio of the two averaged curves, window by window.
"""

import argparse
import json
import math
import time
import tomllib
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn

from text_3gram import VOCABULARY, stream
from trainer_random import ORDER, counted, initial, permutation, split_windows

WINDOW = 25
IGNORED = -100


class Attention(nn.Module):
    def __init__(self, width, heads, bias):
        super().__init__()
        self.heads = heads
        self.qkv = nn.Linear(width, 3 * width, bias=bias)
        self.out = nn.Linear(width, width, bias=bias)

    def forward(self, x):
        b, t, w = x.shape
        q, k, v = (z.view(b, t, self.heads, w // self.heads).transpose(1, 2) for z in self.qkv(x).chunk(3, -1))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.out(y.transpose(1, 2).reshape(b, t, w))


class Block(nn.Module):
    def __init__(self, width, heads, bias):
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(width, bias=bias), nn.LayerNorm(width, bias=bias)
        self.attention = Attention(width, heads, bias)
        self.up, self.down = nn.Linear(width, 4 * width, bias=bias), nn.Linear(4 * width, width, bias=bias)

    def forward(self, x):
        x = x + self.attention(self.norm1(x))
        return x + self.down(F.gelu(self.up(self.norm2(x))))


class Gpt(nn.Module):
    def __init__(self, layers, width, heads, length, bias):
        super().__init__()
        self.tokens, self.positions = nn.Embedding(VOCABULARY, width), nn.Embedding(length, width)
        self.blocks = nn.ModuleList(Block(width, heads, bias) for _ in range(layers))
        self.norm = nn.LayerNorm(width, bias=bias)
        for name, p in self.named_parameters():
            if p.dim() > 1:
                residual = name.endswith(("out.weight", "down.weight"))
                nn.init.normal_(p, std=0.02 / math.sqrt(2 * layers) if residual else 0.02)
            elif name.endswith("bias"):
                nn.init.zeros_(p)

    def start_as_trainer(self, seed):
        """The trainer's initial weights, by its parameter names."""
        width, layers = self.tokens.embedding_dim, len(self.blocks)
        small = 0.02 / math.sqrt(2 * layers)
        draw = lambda name, shape, std=0.02: torch.tensor(initial(seed, name + ".weight", list(shape), "normal", std))
        with torch.no_grad():
            self.tokens.weight.copy_(draw("model.embed_tokens", self.tokens.weight.shape))
            self.positions.weight.copy_(draw("model.embed_positions", self.positions.weight.shape))
            for i, block in enumerate(self.blocks):
                at = f"model.layers.{i}"
                block.attention.qkv.weight.copy_(torch.cat([draw(f"{at}.self_attn.{p}_proj", (width, width)) for p in "qkv"]))
                block.attention.out.weight.copy_(draw(f"{at}.self_attn.o_proj", (width, width), small))
                block.up.weight.copy_(draw(f"{at}.mlp.up_proj", block.up.weight.shape))
                block.down.weight.copy_(draw(f"{at}.mlp.down_proj", block.down.weight.shape, small))

    def forward(self, ids):
        x = self.tokens(ids) + self.positions.weight[: ids.shape[1]]
        for block in self.blocks:
            x = block(x)
        return F.linear(self.norm(x), self.tokens.weight)  # tied


def rate_at(step, total, peak, warmup, ratio):
    if step < warmup:
        return peak * (step + 1) / warmup
    progress = min((step - warmup) / (total - 1 - warmup), 1.0)
    return peak * (ratio + (1 - ratio) * 0.5 * (1 + math.cos(math.pi * progress)))


def train(config, seed, steps, own_random):
    torch.manual_seed(seed)
    data, model, batch = config["data"], config["model"], config["train"]["global_batch"]
    assert model.get("tied", True) and model.get("norm") == "layer" and model.get("position") == "learned"
    length = data["sequence_length"]
    tokens = torch.tensor(stream(data["train"]))
    kept, valid = split_windows(len(tokens) // length, data["validation"], seed)
    counts = torch.zeros(len(tokens) // length, length, dtype=torch.bool)
    for part in (kept, valid):
        counts[part] = torch.tensor(counted(part, length, len(tokens)))
    tokens = F.pad(tokens, (0, 1))  # the last window has no next token, and does not count it
    total = config["train"].get("steps") or config["train"]["epochs"] * math.ceil(len(kept) / batch)
    net = Gpt(model["layers"], model["width"], model["heads"], length, model.get("bias", True))
    if not own_random:
        net.start_as_trainer(seed)
    optimizer, schedule = config["optimizer"], config["schedule"]
    groups = [{"params": [p for p in net.parameters() if p.dim() > 1], "weight_decay": optimizer["weight_decay"]},
              {"params": [p for p in net.parameters() if p.dim() == 1], "weight_decay": 0.0}]
    opt = torch.optim.AdamW(groups, lr=1.0, betas=tuple(optimizer["betas"]), eps=1e-8)
    warmup = schedule["warmup"].split()
    warmup = round(total * float(warmup[0]) / 100) if warmup[1] == "%" else int(warmup[0])

    def batch_of(ids):
        rows = torch.stack([tokens[i * length : i * length + length + 1] for i in ids])
        return rows[:, :-1], rows[:, 1:].where(counts[ids], IGNORED)

    losses, begin = [], time.perf_counter()
    per_epoch = math.ceil(len(kept) / batch)
    for step in range(min(steps or total, total)):
        epoch, place = step // per_epoch, step % per_epoch * batch
        if place == 0:
            shuffled = kept[np.random.default_rng([seed, epoch]).permutation(len(kept)) if own_random
                            else permutation(len(kept), seed, ORDER, epoch)]
        x, y = batch_of(shuffled[place : place + batch])
        for group in opt.param_groups:
            group["lr"] = rate_at(step, total, optimizer["learning_rate"], warmup, schedule["final_ratio"])
        loss = F.cross_entropy(net(x).flatten(0, 1), y.flatten(), ignore_index=IGNORED)
        opt.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(net.parameters(), config["train"]["clip_norm"])
        opt.step()
        losses.append(loss.item())
    per_step = (time.perf_counter() - begin) / len(losses)
    with torch.no_grad():
        held_out = [F.cross_entropy(net(x).flatten(0, 1), y.flatten(), ignore_index=IGNORED, reduction="sum").item()
                    for x, y in (batch_of(valid[i : i + 64]) for i in range(0, len(valid), 64))]
    return losses, sum(held_out) / counts[valid].sum().item(), per_step


def windows(losses):
    return [float(np.mean(losses[i : i + WINDOW])) for i in range(0, len(losses) - WINDOW + 1, WINDOW)]


def compare(reference, files):
    theirs = np.mean([windows(run["losses"]) for run in json.loads(Path(reference).read_text())["runs"]], axis=0)
    ours = []
    for file in files:
        points = [json.loads(line) for line in Path(file).read_text().splitlines()]
        points = {p["step"]: p["value"] for p in points if p["split"] == "train" and p["name"] == "loss"}
        ours.append(windows([points[s] for s in sorted(points)]))
    n = min(len(theirs), *(len(o) for o in ours))
    ours = np.mean([o[:n] for o in ours], axis=0)
    print("steps         torch    trainer  ratio")
    for i, (a, b) in enumerate(zip(theirs[:n], ours)):
        print(f"{i * WINDOW + 1:5d}-{(i + 1) * WINDOW:5d}  {a:.4f}   {b:.4f}   {b / a:.4f}")
    print(f"largest difference {100 * np.max(np.abs(ours / theirs[:n] - 1)):.2f} %, mean of ratios {np.mean(ours / theirs[:n]):.4f}")


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--config", default="configs/text.toml")
    parser.add_argument("--steps", type=int, default=0, help="stop early; the schedule is that of the whole run")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--own-random", action="store_true")
    parser.add_argument("--out")
    parser.add_argument("--compare", nargs="+", metavar="FILE")
    args = parser.parse_args()
    if args.compare:
        compare(args.compare[0], args.compare[1:])
        return
    torch.set_num_threads(args.threads)
    config = tomllib.loads(Path(args.config).read_text())
    runs = []
    for seed in range(1, args.seeds + 1):
        losses, held_out, per_step = train(config, seed, args.steps, args.own_random)
        runs.append({"seed": seed, "losses": losses, "validation_loss": held_out, "seconds_per_step": per_step})
        print(f"seed {seed}: {len(losses)} steps of {1000 * per_step:.0f} ms, validation loss {held_out:.4f}", flush=True)
    mean = np.mean([windows(r["losses"]) for r in runs], axis=0)
    print("loss by window of", WINDOW, "steps:", " ".join(f"{x:.3f}" for x in mean))
    if args.out:
        Path(args.out).write_text(json.dumps({"torch": torch.__version__, "config": config, "runs": runs}))


if __name__ == "__main__":
    main()
