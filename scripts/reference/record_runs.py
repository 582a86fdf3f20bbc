#!/usr/bin/env python3
"""Records whole training runs in PyTorch float64, for the trainer to follow step by step.

    python scripts/reference/record_runs.py             # writes tests/fixtures/torch/runs.json

Each case holds a config, small data files and what PyTorch gives: loss, gradient norm and learning
rate of every step, and the final weights. Initial weights and the order of the samples are the
trainer's own (trainer_random.py), so nothing is left to chance: the trainer, in float32, must stay
on the curve. tests/numerics.rs writes the files, runs the program and compares.
"""

import json
import math
import tomllib

import numpy as np
import torch
import torch.nn.functional as F

from record_torch import OUT, flat, newton_schulz, rotate, wave
from trainer_random import ORDER, initial, permutation

SEED = 5
EPSILON = 1e-5


class Parameters:
    """Weights in network order, started as the trainer starts them."""

    def __init__(self):
        self.of, self.muon, self.buffers = {}, set(), {}

    def add(self, name, shape, kind, scale=0.0, hidden=False):
        self.of[name] = torch.tensor(initial(SEED, name, shape, kind, scale), dtype=torch.float64, requires_grad=True)
        if hidden:
            self.muon.add(name)

    def linear(self, name, into, out, hidden=False, bias=True):
        bound = 1.0 / math.sqrt(into)
        self.add(f"{name}.weight", [out, into], "uniform", bound, hidden)
        if bias:
            self.add(f"{name}.bias", [out], "uniform", bound)

    def conv(self, name, into, out, kernel, hidden):
        self.add(f"{name}.weight", [out, into, kernel, kernel], "normal", math.sqrt(2.0 / (kernel * kernel * out)), hidden)

    def norm(self, name, width, kind="ones", bias=True):
        self.add(f"{name}.weight", [width], kind)
        if bias:
            self.add(f"{name}.bias", [width], "zeros")

    def batch_norm(self, name, width, kind="ones"):
        self.norm(name, width, kind)
        self.buffers[f"{name}.running_mean"] = torch.zeros(width, dtype=torch.float64)
        self.buffers[f"{name}.running_var"] = torch.ones(width, dtype=torch.float64)

    def __getitem__(self, name):
        return self.of.get(name)


def linear(p, name, x):
    return F.linear(x, p[f"{name}.weight"], p[f"{name}.bias"])


def layer_norm(p, name, x):
    return F.layer_norm(x, x.shape[-1:], p[f"{name}.weight"], p[f"{name}.bias"], EPSILON)


def rms_norm(p, name, x):
    return F.rms_norm(x, x.shape[-1:], p[f"{name}.weight"], EPSILON)


def batch_norm(p, name, x, seen):
    """Normalises by the shard's own statistics and notes them for the running ones."""
    c = x.shape[1]
    over = x.transpose(0, 1).reshape(c, -1).detach()
    seen.append((name, over.mean(1), over.var(1, unbiased=True), len(x)))
    return F.batch_norm(x, None, None, p[f"{name}.weight"], p[f"{name}.bias"], training=True, eps=EPSILON)


# ----------------------------------------------------------------------------------- optimisers


class Update:
    """One update rule for all parameters; decay on matrices, kernels and embeddings alone."""

    def __init__(self, config, p):
        self.c, self.p, self.state, self.t = config, p, {}, 0

    def step(self, grads, rate):
        self.t += 1
        with torch.no_grad():
            for name, w in self.p.of.items():
                decay = self.c["weight_decay"] if w.dim() > 1 else 0.0
                kind = self.c["kind"]
                if kind == "muon" and name not in self.p.muon:
                    self.adam(name, w, grads[name], rate, (0.9, 0.95), 1e-8, decay, True)
                elif kind == "muon":
                    self.muon(name, w, grads[name], rate, decay)
                elif kind == "sgd":
                    self.sgd(name, w, grads[name], rate, decay)
                else:
                    self.adam(name, w, grads[name], rate, self.c["betas"], self.c["epsilon"], decay, kind == "adamw")

    def sgd(self, name, w, g, rate, decay):
        g, mu = g + decay * w, self.c["momentum"]
        v = self.state[name] = mu * self.state[name] + g if name in self.state else g
        w -= rate * (g + mu * v if self.c["nesterov"] else v)

    def adam(self, name, w, g, rate, betas, epsilon, decay, decoupled):
        if decoupled:
            w *= 1.0 - rate * decay
        else:
            g = g + decay * w
        m, v = self.state.get(name, (torch.zeros_like(g), torch.zeros_like(g)))
        m, v = betas[0] * m + (1 - betas[0]) * g, betas[1] * v + (1 - betas[1]) * g * g
        self.state[name] = (m, v)
        w -= rate * (m / (1 - betas[0] ** self.t)) / ((v / (1 - betas[1] ** self.t)).sqrt() + epsilon)

    def muon(self, name, w, g, rate, decay):
        mu = self.c["momentum"]
        b = self.state[name] = mu * self.state.get(name, torch.zeros_like(g)) + (1 - mu) * g
        u = (1 - mu) * g + mu * b
        rows, columns = w.shape[0], w[0].numel()
        u = torch.tensor(newton_schulz(u.reshape(rows, columns).numpy(), self.c["iterations"])).reshape(w.shape)
        w *= 1.0 - rate * decay
        # Moonshot's scale, which lets Muon take AdamW's rates (Liu et al. 2025).
        w -= rate * 0.2 * math.sqrt(max(rows, columns)) * u


def rate_at(schedule, s, total, peak):
    def length(text):
        return round(total * float(text.split()[0]) / 100) if "%" in text else int(text.split()[0])

    warmup = length(schedule.get("warmup", "0 steps"))
    if s < warmup:
        return peak * (s + 1) / warmup
    progress = min((s - warmup) / (total - 1 - warmup), 1.0)
    ratio = schedule.get("final_ratio", 0.0)
    match schedule["kind"]:
        case "constant":
            return peak
        case "linear":
            return peak * (1 + (ratio - 1) * progress)
        case "cosine":
            return peak * (ratio + (1 - ratio) * (1 + math.cos(math.pi * progress)) / 2)
        case "step":
            return peak * schedule["factor"] ** sum(s >= length(m) for m in schedule["milestones"])


# ------------------------------------------------------------------------------------------ runs


def cut(count, parts):
    sizes = [count // parts + (i < count % parts) for i in range(parts)]
    return np.cumsum([0, *sizes])


def run(name, config_text, files, p, samples, losses):
    """`losses(ids, seen)` gives summed loss and weight of one shard."""
    config = tomllib.loads(config_text)
    train, clip = config["train"], config["train"].get("clip_norm", 0.0)
    per_epoch = -(-samples // train["global_batch"])
    total = train.get("steps") or train["epochs"] * per_epoch
    update = Update(config["optimizer"], p)
    steps = []
    for s in range(total):
        epoch, place = divmod(s, per_epoch)
        ids = permutation(samples, SEED, ORDER, epoch)[place * train["global_batch"] : (place + 1) * train["global_batch"]]
        edges = cut(len(ids), train["shards"])
        seen, loss, weight = [], 0.0, 0
        for a, b in zip(edges, edges[1:]):
            if a < b:
                part, counted = losses(ids[a:b], seen)
                loss, weight = loss + part, weight + counted
        mean = loss / weight
        grads = dict(zip(p.of, torch.autograd.grad(mean, list(p.of.values()), allow_unused=True)))
        grads = {k: torch.zeros_like(p.of[k]) if g is None else g for k, g in grads.items()}
        norm = math.sqrt(sum(float((g * g).sum()) for g in grads.values()))
        if clip and norm > clip:
            grads = {k: g * (clip / norm) for k, g in grads.items()}
        rate = rate_at(config["schedule"], s, total, config["optimizer"]["learning_rate"])
        steps.append({"loss": float(mean.detach()), "gradient_norm": norm, "learning_rate": rate})
        update.step(grads, rate)
        for layer in dict.fromkeys(n for n, *_ in seen):
            parts = [(m, v, n) for l, m, v, n in seen if l == layer]
            for kind, index in (("running_mean", 0), ("running_var", 1)):
                average = sum(x[index] * x[2] for x in parts) / sum(x[2] for x in parts)
                buffer = p.buffers[f"{layer}.{kind}"]
                buffer += 0.1 * (average - buffer)
    weights = {k: {"shape": list(v.shape), "data": [float(np.float32(x)) for x in flat(v)]} for k, v in {**p.of, **p.buffers}.items()}
    print(f"{name}: {total} steps, loss {steps[0]['loss']:.4f} -> {steps[-1]['loss']:.4f}, norms {steps[0]['gradient_norm']:.3f} .. {steps[-1]['gradient_norm']:.3f}")
    return {"name": name, "config": config_text, "files": files, "steps": steps, "weights": weights}


TAIL = """
[checkpoint]
every = "never"
[log]
every = "1 step"
"""


def standard(columns):
    columns = np.asarray(columns, dtype=np.float64)
    return ((columns - columns.mean(0)) / columns.std(0)).astype(np.float32).astype(np.float64)


def table_classes():
    rows = 20
    numeric = np.round(wave([rows, 2], 3.0), 3)
    words = ["red", "green", "blue"]
    category = [words[(i * i + i // 3) % 3] for i in range(rows)]
    label = [["low", "middle", "top"][(i * 7 + i // 4) % 3] for i in range(rows)]
    csv = "a,b,colour,label\n" + "".join(f"{a},{b},{c},{l}\n" for (a, b), c, l in zip(numeric, category, label))
    config = f"""name = "table-classes"
seed = {SEED}
[data]
kind = "table"
train = "train.csv"
label = "label"
[model]
kind = "mlp"
hidden = [6, 5]
activation = "gelu"
norm = "layer"
embedding = 3
[train]
epochs = 4
global_batch = 8
shards = 3
label_smoothing = 0.1
[optimizer]
kind = "adamw"
learning_rate = 0.01
betas = [0.9, 0.99]
epsilon = 1e-8
weight_decay = 0.05
[schedule]
kind = "cosine"
warmup = "3 steps"
final_ratio = 0.1
""" + TAIL
    p = Parameters()
    p.add("embeddings.0.weight", [4, 3], "normal", 1.0)  # an unknown category and the three, sorted
    p.linear("hidden.0.linear", 5, 6)
    p.norm("hidden.0.norm", 6)
    p.linear("hidden.1.linear", 6, 5, hidden=True)
    p.norm("hidden.1.norm", 5)
    p.linear("output", 5, 3)
    x = torch.tensor(standard(numeric))
    ids_of = torch.tensor([1 + sorted(words).index(c) for c in category])
    y = torch.tensor([["low", "middle", "top"].index(l) for l in label])

    def losses(ids, seen):
        h = torch.cat([x[ids], p["embeddings.0.weight"][ids_of[ids]]], 1)
        for i in (0, 1):
            h = F.gelu(layer_norm(p, f"hidden.{i}.norm", linear(p, f"hidden.{i}.linear", h)))
        return F.cross_entropy(linear(p, "output", h), y[ids], reduction="sum", label_smoothing=0.1), len(ids)

    return run("table_classes", config, {"train.csv": csv}, p, rows, losses)


def table_values():
    rows = 18
    numeric = np.round(wave([rows, 3], 2.0, 0.2), 3)
    value = np.round(numeric @ [0.5, -1.0, 0.25] + np.sin(numeric[:, 0]), 3)
    csv = "a,b,c,value\n" + "".join(",".join(map(str, [*r, v])) + "\n" for r, v in zip(numeric, value))
    config = f"""name = "table-values"
seed = {SEED}
[data]
kind = "table"
train = "train.csv"
label = "value"
task = "regression"
[model]
kind = "mlp"
hidden = [7]
activation = "tanh"
[train]
steps = 14
global_batch = 7
shards = 2
clip_norm = 0.4
loss = "huber"
[optimizer]
kind = "sgd"
learning_rate = 0.2
momentum = 0.9
nesterov = true
weight_decay = 0.01
[schedule]
kind = "step"
milestones = ["6 steps", "10 steps"]
factor = 0.3
""" + TAIL
    p = Parameters()
    p.linear("hidden.0.linear", 3, 7)
    p.linear("output", 7, 1)
    x, y = torch.tensor(standard(numeric)), torch.tensor(standard(value))

    def losses(ids, seen):
        out = linear(p, "output", torch.tanh(linear(p, "hidden.0.linear", x[ids]))).squeeze(1)
        return F.huber_loss(out, y[ids], reduction="sum", delta=1.0), len(ids)

    return run("table_values", config, {"train.csv": csv}, p, rows, losses)


def images():
    count, side = 12, 6
    pixels = np.clip(np.round(128 + 90 * wave([count, side, side], 1.0, 0.5)), 0, 255).astype(np.uint8)
    label = np.array([(i * 5 + i // 3) % 3 for i in range(count)], dtype=np.uint8)
    files = {
        "images": (bytes([0, 0, 8, 3]) + b"".join(int(n).to_bytes(4, "big") for n in pixels.shape) + pixels.tobytes()).hex(),
        "labels": (bytes([0, 0, 8, 1]) + count.to_bytes(4, "big") + label.tobytes()).hex(),
    }
    config = f"""name = "images"
seed = {SEED}
[data]
kind = "images"
format = "idx"
train = "images"
train_labels = "labels"
normalize = "auto"
[model]
kind = "layers"
[[model.layers]]
kind = "conv2d"
out = 4
kernel = 3
padding = 1
bias = false
[[model.layers]]
kind = "batch_norm"
[[model.layers]]
kind = "activation"
function = "relu"
[[model.layers]]
kind = "residual_block"
out = 6
stride = 2
[[model.layers]]
kind = "global_avg_pool"
[[model.layers]]
kind = "linear"
out = 0
[train]
epochs = 5
global_batch = 6
shards = 2
[optimizer]
kind = "adam"
learning_rate = 0.01
betas = [0.9, 0.999]
epsilon = 1e-6
weight_decay = 0.01
[schedule]
kind = "linear"
warmup = "20 %"
final_ratio = 0.2
""" + TAIL
    p = Parameters()
    p.conv("layers.0", 1, 4, 3, hidden=False)
    p.batch_norm("layers.1", 4)
    p.conv("layers.3.conv1", 4, 6, 3, hidden=True)
    p.batch_norm("layers.3.bn1", 6)
    p.conv("layers.3.conv2", 6, 6, 3, hidden=True)
    p.batch_norm("layers.3.bn2", 6, "zeros")
    p.conv("layers.3.downsample.0", 4, 6, 1, hidden=True)
    p.batch_norm("layers.3.downsample.1", 6)
    p.linear("layers.5", 6, 3)
    scaled = pixels.astype(np.float64) / 255
    x = torch.tensor(((scaled - scaled.mean()) / scaled.std()).astype(np.float32).astype(np.float64))[:, None]
    y = torch.tensor(label.astype(np.int64))

    def losses(ids, seen):
        h = F.relu(batch_norm(p, "layers.1", F.conv2d(x[ids], p["layers.0.weight"], padding=1), seen))
        b = F.relu(batch_norm(p, "layers.3.bn1", F.conv2d(h, p["layers.3.conv1.weight"], stride=2, padding=1), seen))
        b = batch_norm(p, "layers.3.bn2", F.conv2d(b, p["layers.3.conv2.weight"], padding=1), seen)
        s = batch_norm(p, "layers.3.downsample.1", F.conv2d(h, p["layers.3.downsample.0.weight"], stride=2), seen)
        return F.cross_entropy(linear(p, "layers.5", F.relu(b + s).mean((2, 3))), y[ids], reduction="sum"), len(ids)

    return run("images", config, files, p, count, losses)


def text(name, gated, optimizer):
    """A GPT with learned positions, LayerNorm, GELU and a tied output layer; or, `gated`, one with
    rotary positions, RMSNorm, SwiGLU, fewer key and value heads and its own output layer."""
    length, width, heads, kv, layers, ff = 8, 8, 2, 1 if gated else 2, 2, 64 if gated else 32
    words = "the cat sat on the mat and the dog sat on the log; then all of them ran away.\n"
    tokens = [*words.encode(), 256]
    samples = (len(tokens) - 1) // length
    model = ('activation = "swiglu"\nnorm = "rms"\nposition = "rotary"\nkv_heads = 1\ntied = false' if gated else
             'activation = "gelu"\nnorm = "layer"\nposition = "learned"\ntied = true')
    config = f"""name = "{name.replace('_', '-')}"
seed = {SEED}
[data]
kind = "text"
train = "text.txt"
tokenizer = "byte"
sequence_length = {length}
cache = "cache"
[model]
kind = "gpt"
layers = {layers}
width = {width}
heads = {heads}
bias = false
{model}
[train]
epochs = 4
global_batch = 4
shards = 2
clip_norm = 1.0
[optimizer]
{optimizer}
[schedule]
kind = "constant"
warmup = "2 steps"
""" + TAIL
    p, head, std = Parameters(), width // heads, 0.02
    small = std / math.sqrt(2 * layers)
    p.add("model.embed_tokens.weight", [257, width], "normal", std)
    if not gated:
        p.add("model.embed_positions.weight", [length, width], "normal", std)
    for i in range(layers):
        at = f"model.layers.{i}"
        p.norm(f"{at}.input_layernorm", width, bias=False)
        for part, out, dev in (("q", width, std), ("k", kv * head, std), ("v", kv * head, std), ("o", width, small)):
            p.add(f"{at}.self_attn.{part}_proj.weight", [out, width], "normal", dev, hidden=True)
        p.norm(f"{at}.post_attention_layernorm", width, bias=False)
        for part in ("gate", "up") if gated else ("up",):
            p.add(f"{at}.mlp.{part}_proj.weight", [ff, width], "normal", std, hidden=True)
        p.add(f"{at}.mlp.down_proj.weight", [width, ff], "normal", small, hidden=True)
    p.norm("model.norm", width, bias=False)
    if gated:
        p.add("lm_head.weight", [257, width], "normal", std)
    ids_of = torch.tensor(tokens)
    norm = rms_norm if gated else layer_norm

    def losses(ids, seen):
        rows = torch.stack([ids_of[i * length : i * length + length + 1] for i in ids])
        h = p["model.embed_tokens.weight"][rows[:, :-1]]
        if not gated:
            h = h + p["model.embed_positions.weight"]
        for i in range(layers):
            at = f"model.layers.{i}"
            n = norm(p, f"{at}.input_layernorm", h)
            q, k, v = (linear(p, f"{at}.self_attn.{s}_proj", n).view(len(ids), length, -1, head).transpose(1, 2) for s in "qkv")
            if gated:
                q, k = rotate(q, 10000.0), rotate(k, 10000.0)
            k, v = k.repeat_interleave(heads // kv, 1), v.repeat_interleave(heads // kv, 1)
            a = F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).reshape(len(ids), length, width)
            h = h + linear(p, f"{at}.self_attn.o_proj", a)
            n = norm(p, f"{at}.post_attention_layernorm", h)
            up = linear(p, f"{at}.mlp.up_proj", n)
            inner = F.silu(linear(p, f"{at}.mlp.gate_proj", n)) * up if gated else F.gelu(up)
            h = h + linear(p, f"{at}.mlp.down_proj", inner)
        out = F.linear(norm(p, "model.norm", h), p["lm_head.weight" if gated else "model.embed_tokens.weight"])
        return F.cross_entropy(out.flatten(0, 1), rows[:, 1:].flatten(), reduction="sum"), rows[:, 1:].numel()

    return run(name, config, {"text.txt": words}, p, samples, losses)


def main():
    torch.set_num_threads(1)
    cases = [
        table_classes(), table_values(), images(),
        text("gpt_learned_tied_adamw", False,
             'kind = "adamw"\nlearning_rate = 0.003\nbetas = [0.9, 0.95]\nepsilon = 1e-6\nweight_decay = 0.1'),
        text("gpt_rotary_gated_muon", True, 'kind = "muon"\nlearning_rate = 0.003\nmomentum = 0.95\niterations = 5\nweight_decay = 0.1'),
    ]
    document = {"about": "Whole runs in float64 from the trainer's own initial weights and order. Files whose text is hexadecimal "
                         "digits (images, labels) are binary.",
                "recorded_by": f"scripts/reference/record_runs.py, torch {torch.__version__.split('+')[0]}", "cases": cases}
    import re
    out = json.dumps(document, indent=1, allow_nan=False)
    out = re.sub(r"\[\s+([-+.\de,\s]+?)\s+\]", lambda m: "[" + " ".join(m.group(1).split()) + "]", out)
    (OUT / "runs.json").write_text(out + "\n")
    print(len(out), "bytes")


if __name__ == "__main__":
    main()
