#!/usr/bin/env python3
"""A byte 3-gram model with interpolated Kneser-Ney smoothing: the bar configs/text.toml has to pass.

    python scripts/reference/text_3gram.py [--folder data/shakespeare] [--length 128] [--validation 0.1]

The text is the files in order of their names, each followed by an end-of-document token (257 in
all), cut into windows of `length` tokens; the trainer's own blocks of windows are held out. Counts come from the training blocks alone. Kneser and Ney 1995, in the interpolated
form with three discounts of Chen and Goodman 1999; the discounts are those of the counts, which on
so small an alphabet is near the optimum (--tune searches a scale on the held-out blocks and so
gives a bound that flatters the 3-gram model). Also prints orders 1, 2, 4 and 5 for comparison.
"""

import argparse
import math
from collections import Counter, defaultdict
from pathlib import Path

import numpy as np

from trainer_random import counted, split_windows

VOCABULARY = 257
END = 256


def stream(folder):
    tokens = []
    for path in sorted(Path(folder).iterdir()):
        if path.is_file():
            tokens.extend(path.read_bytes().removeprefix(b"\xef\xbb\xbf"))
            tokens.append(END)
    return tokens


def blocks(tokens, length, share, seed):
    """Positions of predicted tokens: (training, held out), those of the trainer."""
    parts = []
    for windows in split_windows(len(tokens) // length, share, seed):
        places = windows[:, None] * length + np.arange(1, length + 1)
        parts.append(places[counted(windows, length, len(tokens))].tolist())
    return parts


class KneserNey:
    """Interpolated, modified Kneser-Ney of a given order over a small alphabet."""

    def __init__(self, tokens, positions, order, scale=1.0):
        self.order = order
        counts = [None] * (order + 1)
        counts[order] = Counter(tuple(tokens[p - order + 1 : p + 1]) for p in positions if p >= order - 1)
        for n in range(order - 1, 0, -1):
            # Lower orders count in how many different contexts a token was seen.
            counts[n] = Counter(gram[1:] for gram in counts[n + 1])
        self.levels = []
        for n in range(1, order + 1):
            level = defaultdict(dict)
            for gram, c in counts[n].items():
                level[gram[:-1]][gram[-1]] = c
            of = Counter(min(c, 4) for c in counts[n].values())
            y = of[1] / (of[1] + 2 * of[2]) if of[1] else 0.0
            # Too few counts to estimate from (the single tokens): half a count.
            estimate = [k - (k + 1) * y * of[k + 1] / of[k] if of[k] and of[1] > 20 else 0.5 for k in (1, 2, 3)]
            discount = [0.0] + [min(max(scale * d, 0.01), k - 0.01) for k, d in zip((1, 2, 3), estimate)]
            contexts = {}
            for context, following in level.items():
                total = sum(following.values())
                left = sum(discount[min(c, 3)] for c in following.values())
                contexts[context] = (total, left, following)
            self.levels.append((discount, contexts))

    def probability(self, context, token):
        p = 1.0 / VOCABULARY
        for n, (discount, contexts) in enumerate(self.levels):
            entry = contexts.get(tuple(context[len(context) - n :]) if n else ())
            if entry is None:
                break
            total, left, following = entry
            c = following.get(token, 0)
            p = (max(c - discount[min(c, 3)], 0.0) + left * p) / total
        return p

    def loss(self, tokens, positions):
        cache, total = {}, 0.0
        for p in positions:
            gram = tuple(tokens[max(0, p - self.order + 1) : p + 1])
            if gram not in cache:
                cache[gram] = -math.log(self.probability(gram[:-1], gram[-1]))
            total += cache[gram]
        return total / len(positions)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--folder", default="data/shakespeare")
    parser.add_argument("--length", type=int, default=128)
    parser.add_argument("--validation", type=float, default=0.1)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--tune", action="store_true")
    args = parser.parse_args()
    tokens = stream(args.folder)
    train, valid = blocks(tokens, args.length, args.validation, args.seed)
    print(f"{len(tokens)} tokens, {len(train)} predicted in training blocks, {len(valid)} in held-out blocks")
    model = KneserNey(tokens, train, 3)
    whole = sum(model.probability((tokens[100], tokens[101]), t) for t in range(VOCABULARY))
    assert abs(whole - 1.0) < 1e-9, whole
    for order in (1, 2, 3, 4, 5):
        loss = KneserNey(tokens, train, order).loss(tokens, valid)
        print(f"{order}-gram: {loss:.4f} nats per token, {loss / math.log(2):.4f} bits", flush=True)
    if args.tune:
        loss, scale = min((KneserNey(tokens, train, 3, s).loss(tokens, valid), s) for s in (0.5, 0.7, 0.85, 1.0, 1.15))
        print(f"3-gram, discounts x {scale} chosen on the held-out blocks: {loss:.4f} nats")


if __name__ == "__main__":
    main()
