#!/usr/bin/env python3
"""Records what PyTorch (and, for metrics, scikit-learn) computes on small fixed inputs.

    python scripts/reference/record_torch.py            # writes tests/fixtures/torch/*.json

Inputs come from a formula, never from a library's random generator, and are stored with the
outputs: the tests need nothing but the files. Every input is a float32 value, so float32 and
float64 runs start from the same numbers. Tensors are stored flat, row-major, beside their shape.

Needs: torch==2.9.0, numpy, scikit-learn.
"""

import json
import math
import re
from pathlib import Path

import numpy as np
import sklearn
import sklearn.metrics
import torch
import torch.nn.functional as F

OUT = Path(__file__).resolve().parents[2] / "tests" / "fixtures" / "torch"
STEPS = 20


def wave(shape, scale=1.0, phase=0.0):
    """Reproducible values without pattern that a layout mistake could hide behind, in float32."""
    n = math.prod(shape)
    i = np.arange(n, dtype=np.float64)
    x = np.sin(0.7 * i + 1.3 + phase) + 0.5 * np.cos(0.13 * i * i + phase)
    return (scale * x).astype(np.float32).astype(np.float64).reshape(shape)


def flat(x):
    if isinstance(x, torch.Tensor):
        x = x.detach().cpu().to(torch.float64).numpy()
    return [float(v) for v in np.asarray(x, dtype=np.float64).reshape(-1)]


def tensor(x):
    return {"shape": list(np.shape(x)), "data": flat(x)}


def leaf(x, dtype):
    return torch.tensor(np.asarray(x), dtype=dtype, requires_grad=True)


def both(function):
    """`function(dtype) -> dict` in both precisions."""
    return {"float64": function(torch.float64), "float32": function(torch.float32)}


def save(name, about, cases, **more):
    OUT.mkdir(parents=True, exist_ok=True)
    document = {
        "about": about,
        "recorded_by": f"scripts/reference/record_torch.py, torch {torch.__version__.split('+')[0]}",
        **more,
        "cases": cases,
    }
    text = json.dumps(document, indent=1, allow_nan=False)
    # Lists of numbers go on one line each: one number per line makes files tall, not clear.
    text = re.sub(r"\[\s+([-+.\de,\s]+?)\s+\]", lambda m: "[" + " ".join(m.group(1).split()) + "]", text)
    (OUT / name).write_text(text + "\n")
    print(f"{name}: {len(cases)} cases")


# --------------------------------------------------------------------------------------- losses


def losses():
    cases = []
    logits = wave([6, 5], 2.0)
    targets = [0, 3, 4, 1, 2, 3]
    ignored = [0, -1, 4, 1, -1, 3]
    extreme = wave([6, 5], 60.0, 0.4)
    for name, x, y, smoothing in [
        ("plain", logits, targets, 0.0),
        ("smoothed", logits, targets, 0.1),
        ("ignored", logits, ignored, 0.0),
        ("smoothed_ignored", logits, ignored, 0.1),
        ("large_logits", extreme, targets, 0.0),
        ("large_logits_smoothed", extreme, targets, 0.1),
    ]:

        def run(dtype, x=x, y=y, smoothing=smoothing):
            z = leaf(x, dtype)
            t = torch.tensor([-100 if v < 0 else v for v in y])
            total = F.cross_entropy(z, t, label_smoothing=smoothing, reduction="sum", ignore_index=-100)
            total.backward()
            count = sum(v >= 0 for v in y)
            return {"sum": total.item(), "mean": total.item() / count, "gradient_of_sum": flat(z.grad)}

        cases.append({
            "name": f"cross_entropy_{name}", "loss": "cross_entropy", "input": tensor(x), "targets": y,
            "label_smoothing": smoothing, "count": sum(v >= 0 for v in y), **both(run),
        })
    # Includes differences of exactly 0, exactly 1 and far above 1 (Huber's delta).
    values = wave([7, 1], 1.5)
    wanted = wave([7], 1.5, 0.9)
    wanted[2] = values[2, 0]
    wanted[3] = np.float64(np.float32(0.25))
    values[3, 0] = 1.25
    wanted[4] = values[4, 0] + 8.0
    wanted = wanted.astype(np.float32).astype(np.float64)
    for loss, function in [
        ("mse", lambda a, b: F.mse_loss(a, b, reduction="sum")),
        ("mae", lambda a, b: F.l1_loss(a, b, reduction="sum")),
        ("huber", lambda a, b: F.huber_loss(a, b, reduction="sum", delta=1.0)),
    ]:

        def run(dtype, function=function):
            z = leaf(values, dtype)
            total = function(z.squeeze(1), torch.tensor(wanted, dtype=dtype))
            total.backward()
            return {"sum": total.item(), "mean": total.item() / 7, "gradient_of_sum": flat(z.grad)}

        cases.append({"name": loss, "loss": loss, "input": tensor(values), "targets": flat(wanted),
                      "label_smoothing": 0.0, "count": 7, **both(run)})
    save("losses.json", "Losses as sums over the counted targets, with the gradient of the sum. "
         "A target below 0 is not counted. Huber has delta 1.", cases)


# ----------------------------------------------------------------------------------- optimisers


def newton_schulz(g, iterations):
    """Orthogonalises a matrix. Jordan et al. 2024, "Muon: an optimizer for hidden layers in neural
    networks", with the coefficients given there; in the precision of its argument."""
    a, b, c = 3.4445, -4.7750, 2.0315
    tall = g.shape[0] > g.shape[1]
    x = g.T if tall else g
    x = x / max(np.linalg.norm(x), 1e-7)
    for _ in range(iterations):
        s = x @ x.T
        x = a * x + (b * s + c * s @ s) @ x
    return x.T if tall else x


def muon_update(p, g, buffer, rate, momentum, iterations, decay):
    """Muon with Nesterov momentum and torch's adjust_lr_fn "original". Returns (parameter, buffer)."""
    buffer = momentum * buffer + (1.0 - momentum) * g
    update = (1.0 - momentum) * g + momentum * buffer
    update = newton_schulz(update, iterations)
    adjusted = rate * math.sqrt(max(1.0, p.shape[0] / p.shape[1]))
    return p * (1.0 - rate * decay) - adjusted * update, buffer


def lion_update(p, g, m, rate, betas, decay):
    """Chen et al. 2023, "Symbolic Discovery of Optimization Algorithms", algorithm 2."""
    direction = np.sign(betas[0] * m + (1.0 - betas[0]) * g)
    p = p - rate * (direction + decay * p)
    return p, betas[1] * m + (1.0 - betas[1]) * g


def gradients(shapes):
    """One gradient per step and parameter; scales differ by step so that second moments matter."""
    return [
        [wave(s, 0.3 + 0.2 * ((t * 7) % 5), 0.37 * t + 1.1 * k) for k, s in enumerate(shapes)]
        for t in range(STEPS)
    ]


def rates(peak):
    """Warm-up, then a falling rate: optimisers must take the rate of each step."""
    out = []
    for t in range(STEPS):
        out.append(peak * (t + 1) / 4 if t < 4 else peak * (1.0 - 0.04 * (t - 4)))
    return out


def optimizers():
    # The first parameter decays, the second does not.
    shapes = [[4, 3], [5]]
    initial = [wave(s, 0.5, 2.0 + k) for k, s in enumerate(shapes)]
    grads = gradients(shapes)
    cases = []

    def torch_case(name, kind, make, settings, peak, decay):
        rate = rates(peak)

        def run(dtype):
            ps = [leaf(p, dtype) for p in initial]
            opt = make([
                {"params": [ps[0]], "weight_decay": decay},
                {"params": [ps[1]], "weight_decay": 0.0},
            ])
            history = []
            for t in range(STEPS):
                for group in opt.param_groups:
                    group["lr"] = rate[t]
                for p, g in zip(ps, grads[t]):
                    p.grad = torch.tensor(g, dtype=dtype)
                opt.step()
                history.append([v for p in ps for v in flat(p)])
            return {"parameters_after_step": history}

        cases.append({"name": name, "optimizer": {"kind": kind, "learning_rate": peak, **settings, "weight_decay": decay},
                      "learning_rates": rate, **both(run)})

    for name, momentum, nesterov, decay in [
        ("sgd", 0.0, False, 0.0), ("sgd_decay", 0.0, False, 0.05), ("sgd_momentum", 0.9, False, 0.0),
        ("sgd_momentum_decay", 0.9, False, 0.05), ("sgd_nesterov", 0.9, True, 0.0),
        ("sgd_nesterov_decay", 0.9, True, 0.05),
    ]:
        torch_case(name, "sgd",
                   lambda groups, m=momentum, n=nesterov: torch.optim.SGD(groups, lr=1.0, momentum=m, nesterov=n, foreach=False),
                   {"momentum": momentum, "nesterov": nesterov}, 0.1, decay)
    for decay in [0.0, 0.05]:
        tail = "_decay" if decay else ""
        torch_case("adam" + tail, "adam",
                   lambda groups: torch.optim.Adam(groups, lr=1.0, betas=(0.9, 0.99), eps=1e-8, foreach=False),
                   {"betas": [0.9, 0.99], "epsilon": 1e-8}, 0.01, decay)
        torch_case("adamw" + tail, "adamw",
                   lambda groups: torch.optim.AdamW(groups, lr=1.0, betas=(0.9, 0.999), eps=1e-8, foreach=False),
                   {"betas": [0.9, 0.999], "epsilon": 1e-8}, 0.01, decay)

    for decay in [0.0, 0.1]:
        rate = rates(0.003)
        ps, ms = [p.copy() for p in initial], [np.zeros_like(p) for p in initial]
        history = []
        for t in range(STEPS):
            for k, d in enumerate([decay, 0.0]):
                ps[k], ms[k] = lion_update(ps[k], grads[t][k], ms[k], rate[t], [0.9, 0.99], d)
            history.append([v for p in ps for v in flat(p)])
        cases.append({"name": "lion" + ("_decay" if decay else ""), "source": "float64 reference in the script (torch has no Lion)",
                      "optimizer": {"kind": "lion", "learning_rate": 0.003, "betas": [0.9, 0.99], "weight_decay": decay},
                      "learning_rates": rate, "float64": {"parameters_after_step": history}})
    save("optimizers.json",
         "Twenty updates from given gradients. Parameter 0 (a matrix) has weight decay, parameter 1 (a vector) has none; "
         "values are flat, parameter 0 first. learning_rates[t] is the rate of update t.",
         cases, shapes=shapes, initial=[v for p in initial for v in flat(p)],
         gradients=[[v for g in step for v in flat(g)] for step in grads])

    # Muon: wide, tall and square matrices; all of them hidden matrices that decay.
    shapes = [[4, 6], [6, 4], [3, 3]]
    initial = [wave(s, 0.5, 2.0 + k) for k, s in enumerate(shapes)]
    grads = gradients(shapes)
    cases = []
    for decay in [0.0, 0.1]:
        for iterations in [5]:
            rate = rates(0.02)
            ps, bs = [p.copy() for p in initial], [np.zeros_like(p) for p in initial]
            history = []
            for t in range(STEPS):
                for k in range(len(ps)):
                    ps[k], bs[k] = muon_update(ps[k], grads[t][k], bs[k], rate[t], 0.95, iterations, decay)
                history.append([v for p in ps for v in flat(p)])
            # torch.optim.Muon does Newton-Schulz in bfloat16; without that cast it is the same function.
            cast, torch.Tensor.bfloat16 = torch.Tensor.bfloat16, lambda self: self
            theirs = [leaf(p, torch.float64) for p in initial]
            opt = torch.optim.Muon(theirs, lr=1.0, momentum=0.95, nesterov=True, weight_decay=decay, ns_steps=iterations)
            for t in range(STEPS):
                for group in opt.param_groups:
                    group["lr"] = rate[t]
                for p, g in zip(theirs, grads[t]):
                    p.grad = torch.tensor(g)
                opt.step()
            torch.Tensor.bfloat16 = cast
            assert np.allclose(history[-1], [v for p in theirs for v in flat(p)], rtol=1e-10, atol=1e-12)
            cases.append({"name": "muon" + ("_decay" if decay else ""),
                          "source": "float64 reference in the script, equal to torch.optim.Muon without its cast to bfloat16",
                          "optimizer": {"kind": "muon", "learning_rate": 0.02, "momentum": 0.95, "iterations": iterations,
                                        "weight_decay": decay},
                          "learning_rates": rate, "float64": {"parameters_after_step": history}})
    orthogonal = [{"name": f"newton_schulz_{r}x{c}", "input": tensor(wave([r, c], 1.0, 0.2)), "iterations": 5,
                   "float64": {"output": flat(newton_schulz(wave([r, c], 1.0, 0.2), 5))}} for r, c in shapes]
    save("muon.json", "Twenty Muon updates of three hidden matrices (wide, tall, square), Nesterov momentum, rate times "
         "sqrt(max(1, rows / columns)), decoupled decay with the unadjusted rate; and Newton-Schulz alone.",
         cases, shapes=shapes, initial=[v for p in initial for v in flat(p)],
         gradients=[[v for g in step for v in flat(g)] for step in grads], newton_schulz=orthogonal)


# ------------------------------------------------------------------------------------ schedules


def schedules():
    """Our definitions (src/plan/schedule.rs), written again in Python, and held against torch's own
    schedulers where those define the same curve."""
    peak, cases = 0.4, []

    def curve(kind, total, warmup, ratio=0.0, milestones=(), factor=1.0):
        out = []
        for s in range(total + 3):  # three beyond the end: an extended run
            if s < warmup:
                out.append(peak * (s + 1) / warmup)
                continue
            last = total - 1
            p = min((s - warmup) / (last - warmup), 1.0) if last > warmup else 0.0
            if kind == "constant":
                out.append(peak)
            elif kind == "linear":
                out.append(peak + (ratio * peak - peak) * p)
            elif kind == "cosine":
                out.append(ratio * peak + (peak - ratio * peak) * (1.0 + math.cos(math.pi * p)) / 2.0)
            else:
                out.append(peak * factor ** sum(s >= m for m in milestones))
        return out

    def torchs(make, count):
        opt = torch.optim.SGD([torch.zeros(1, requires_grad=True)], lr=peak)
        sched, out = make(opt), []
        for _ in range(count):
            out.append(opt.param_groups[0]["lr"])
            opt.step()
            sched.step()
        return out

    S = torch.optim.lr_scheduler
    total = 25
    checks = [
        (curve("cosine", total, 0, 0.1), lambda o: S.CosineAnnealingLR(o, T_max=total - 1, eta_min=0.1 * peak)),
        (curve("linear", total, 0, 0.2), lambda o: S.LinearLR(o, start_factor=1.0, end_factor=0.2, total_iters=total - 1)),
        (curve("step", total, 0, milestones=[10, 18], factor=0.3), lambda o: S.MultiStepLR(o, [10, 18], gamma=0.3)),
        (curve("constant", total, 6), lambda o: S.LinearLR(o, start_factor=1 / 6, total_iters=5)),
    ]
    for ours, make in checks:
        assert np.allclose(ours[:total], torchs(make, total), rtol=1e-12, atol=1e-15), (ours, torchs(make, total))
    for name, kind, total, warmup, more in [
        ("constant", "constant", 10, 0, {}),
        ("constant_warmup", "constant", 10, 4, {}),
        ("linear", "linear", 12, 0, {"final_ratio": 0.0}),
        ("linear_warmup", "linear", 12, 3, {"final_ratio": 0.2}),
        ("cosine", "cosine", 25, 0, {"final_ratio": 0.1}),
        ("cosine_warmup", "cosine", 40, 5, {"final_ratio": 0.0}),
        ("cosine_all_warmup", "cosine", 5, 5, {"final_ratio": 0.1}),
        ("cosine_one_step", "cosine", 1, 0, {"final_ratio": 0.1}),
        ("step", "step", 25, 0, {"milestones": [10, 18], "factor": 0.3}),
        ("step_warmup", "step", 25, 3, {"milestones": [10, 18], "factor": 0.1}),
    ]:
        cases.append({"name": name, "schedule": {"kind": kind, "warmup": f"{warmup} steps", **(
            {"milestones": [f"{m} steps" for m in more["milestones"]], "factor": more["factor"]} if kind == "step" else more)},
            "steps_total": total, "peak": peak,
            "rates": curve(kind, total, warmup, more.get("final_ratio", 0.0), more.get("milestones", ()), more.get("factor", 1.0))})
    save("schedules.json", "rates[s] is the learning rate of the step that follows s finished ones, in float64, and three "
         "steps beyond the end. Curves that torch.optim.lr_scheduler also defines were checked against it to 1e-12.", cases)


# --------------------------------------------------------------------------- layers with gradients


def differentiated(inputs, function, upstream_phase=0.5):
    """Runs `function(*leaves)`; the gradients are those of sum(output * upstream)."""

    def run(dtype):
        leaves = [leaf(x, dtype) for x in inputs.values()]
        out = function(*leaves)
        upstream = torch.tensor(wave(list(out.shape), 1.0, upstream_phase), dtype=dtype)
        (out * upstream).sum().backward()
        return {"output": flat(out), **{f"gradient_{k}": flat(v.grad) for k, v in zip(inputs, leaves)}}

    with torch.no_grad():
        shape = list(function(*[torch.tensor(x) for x in inputs.values()]).shape)
    return {**{k: tensor(v) for k, v in inputs.items()}, "output_shape": shape,
            "upstream": flat(wave(shape, 1.0, upstream_phase)), **both(run)}


def norms():
    cases = []
    for name, shape in [("features", [6, 4]), ("images", [3, 4, 5, 2])]:
        c = shape[1]
        weight, bias = 1.0 + wave([c], 0.3, 0.1), wave([c], 0.2, 0.2)
        weight = weight.astype(np.float32).astype(np.float64)
        x, x2 = wave(shape, 1.5, 0.3), wave(shape, 0.8, 0.7) + 0.5
        x2 = x2.astype(np.float32).astype(np.float64)
        case = differentiated({"input": x, "weight": weight, "bias": bias},
                              lambda z, w, b: F.batch_norm(z, None, None, w, b, training=True, eps=1e-5))

        def running(dtype):
            mean, var = torch.zeros(c, dtype=dtype), torch.ones(c, dtype=dtype)
            w, b = torch.tensor(weight, dtype=dtype), torch.tensor(bias, dtype=dtype)
            history = []
            for z in (x, x2):
                F.batch_norm(torch.tensor(z, dtype=dtype), mean, var, w, b, training=True, momentum=0.1, eps=1e-5)
                history.append({"mean": flat(mean), "var": flat(var)})
            out = F.batch_norm(torch.tensor(x, dtype=dtype), mean, var, w, b, training=False, eps=1e-5)
            return {"running_after_step": history, "evaluated": flat(out)}

        more = both(running)
        for precision in ("float64", "float32"):
            case[precision].update(more[precision])
        cases.append({"name": f"batch_norm_{name}", "layer": "batch_norm", "epsilon": 1e-5, "momentum": 0.1,
                      "second_input": tensor(x2), **case})
    width = 8
    weight, bias = (1.0 + wave([width], 0.3, 0.1)).astype(np.float32).astype(np.float64), wave([width], 0.2, 0.2)
    for name, shape in [("", [5, width]), ("_sequence", [2, 3, width])]:
        cases.append({"name": f"layer_norm{name}", "layer": "layer_norm", "epsilon": 1e-5,
                      **differentiated({"input": wave(shape, 1.5, 0.3), "weight": weight, "bias": bias},
                                       lambda z, w, b: F.layer_norm(z, [width], w, b, 1e-5))})
        for eps in (1e-5, 1e-6):
            cases.append({"name": f"rms_norm{name}_{eps:g}", "layer": "rms_norm", "epsilon": eps,
                          **differentiated({"input": wave(shape, 1.5, 0.3), "weight": weight},
                                           lambda z, w, eps=eps: F.rms_norm(z, [width], w, eps))})
    save("norms.json", "Normalisations with the gradients of sum(output * upstream). Batch norm: running statistics start at "
         "mean 0 and variance 1, follow input then second_input with momentum 0.1 and unbiased variance; `evaluated` is "
         "input under the statistics after both.", cases)


def activations():
    x = np.concatenate([wave([24], 2.0), np.array([0.0, -0.0, 1e-4, -1e-4, 6.0, -6.0, 12.0, -12.0])])
    x = x.astype(np.float32).astype(np.float64)
    functions = {"relu": F.relu, "gelu": F.gelu, "silu": F.silu, "tanh": torch.tanh, "sigmoid": torch.sigmoid}
    save("activations.json", "Element-wise functions; gelu is the exact one (erf). Gradients are of sum(output * upstream).",
         [{"name": n, **differentiated({"input": x}, f)} for n, f in functions.items()])


def causal(q, k, v):
    """Softmax attention of each position over itself and the ones before; keys and values may have
    fewer heads (grouped queries: query head h reads head h // (heads / kv_heads))."""
    group = q.shape[1] // k.shape[1]
    k, v = k.repeat_interleave(group, 1), v.repeat_interleave(group, 1)
    return F.scaled_dot_product_attention(q, k, v, is_causal=True)


def rotate(x, base):
    """Half-split rotary embedding, as in Llama: pair (i, i + d/2) turns by position * base^(-2i/d).
    Su et al. 2021, with the layout of Hugging Face `modeling_llama.py`."""
    t, d = x.shape[-2], x.shape[-1]
    frequency = base ** (-torch.arange(0, d, 2, dtype=torch.float64) / d)
    angle = torch.arange(t, dtype=torch.float64)[:, None] * frequency[None, :]
    cos = torch.cat([angle.cos()] * 2, -1).to(x.dtype)
    sin = torch.cat([angle.sin()] * 2, -1).to(x.dtype)
    turned = torch.cat([-x[..., d // 2:], x[..., : d // 2]], -1)
    return x * cos + turned * sin


def attention():
    cases = []
    for name, b, h, kv, t, d in [("multi_head", 2, 2, 2, 5, 4), ("grouped", 1, 4, 2, 6, 4), ("one_token", 1, 2, 2, 1, 4)]:
        cases.append({"name": name, "heads": h, "kv_heads": kv, **differentiated(
            {"query": wave([b, h, t, d], 1.0, 0.1), "key": wave([b, kv, t, d], 1.2, 0.6), "value": wave([b, kv, t, d], 0.9, 1.9)}, causal)})
    save("attention.json", "Causal attention softmax(q k^T / sqrt(d)) v; shapes are [batch, heads, tokens, head width]. "
         "Gradients are of sum(output * upstream).", cases)
    save("rotary.json", "Half-split rotary embedding of [batch, heads, tokens, head width], positions from 0, angles in float64.",
         [{"name": f"base_{base:g}", "base": base, **differentiated({"input": wave([2, 2, 6, 8], 1.0, 0.4)}, lambda x, base=base: rotate(x, base))}
          for base in (10000.0, 500000.0)])


def convolutions():
    cases = []
    for name, kernel, stride, padding, bias in [("3x3", 3, 1, 1, True), ("3x3_stride2", 3, 2, 1, False),
                                                ("1x1_stride2", 1, 2, 0, False), ("2x2", 2, 2, 0, True)]:
        inputs = {"input": wave([2, 3, 7, 6], 1.0, 0.1), "weight": wave([4, 3, kernel, kernel], 0.4, 0.6)}
        if bias:
            inputs["bias"] = wave([4], 0.3, 0.2)
        cases.append({"name": f"conv2d_{name}", "layer": "conv2d", "kernel": kernel, "stride": stride, "padding": padding,
                      **differentiated(inputs, lambda x, w, b=None, s=stride, p=padding: F.conv2d(x, w, b, stride=s, padding=p))})
    for name, kernel, stride, padding in [("2", 2, 2, 0), ("3_stride2", 3, 2, 1)]:
        x = {"input": wave([2, 3, 7, 6], 1.0, 0.1)}
        cases.append({"name": f"max_pool2d_{name}", "layer": "max_pool2d", "kernel": kernel, "stride": stride, "padding": padding,
                      **differentiated(x, lambda z, k=kernel, s=stride, p=padding: F.max_pool2d(z, k, s, p))})
        for counted in (True, False) if padding else (True,):
            tail = "" if counted else "_padding_not_counted"
            cases.append({"name": f"avg_pool2d_{name}{tail}", "layer": "avg_pool2d", "kernel": kernel, "stride": stride, "padding": padding,
                          "counts_padding": counted,
                          **differentiated(x, lambda z, k=kernel, s=stride, p=padding, c=counted: F.avg_pool2d(z, k, s, p, count_include_pad=c))})
    cases.append({"name": "global_avg_pool", "layer": "global_avg_pool", "kernel": 0, "stride": 0, "padding": 0,
                  **differentiated({"input": wave([2, 3, 7, 6], 1.0, 0.1)}, lambda z: z.mean((2, 3)))})
    cases.append({"name": "linear", "layer": "linear", "kernel": 0, "stride": 0, "padding": 0,
                  **differentiated({"input": wave([5, 4], 1.0, 0.1), "weight": wave([3, 4], 0.4, 0.6), "bias": wave([3], 0.3, 0.2)}, F.linear)})
    save("convolutions.json", "Convolution, pooling and linear layers, NCHW, weights in torch's layout. Gradients are of "
         "sum(output * upstream).", cases)


# --------------------------------------------------------------------------------------- metrics


def metrics():
    m, cases = sklearn.metrics, []

    def softmax(z):
        e = np.exp(z - z.max(1, keepdims=True))
        return e / e.sum(1, keepdims=True)

    def classes(name, logits, targets, top_k):
        p, y = softmax(logits), np.array(targets)
        k = logits.shape[1]
        guess = logits.argmax(1)
        values = {
            "loss": m.log_loss(y, p, labels=list(range(k))),
            "accuracy": m.accuracy_score(y, guess),
            f"top_{top_k}": m.top_k_accuracy_score(y, p if k > 2 else p[:, 1], k=top_k, labels=list(range(k))),
            "f1_macro": m.f1_score(y, guess, average="macro", labels=list(range(k)), zero_division=0.0),
        }
        if k == 2:
            values["f1_positive"] = m.f1_score(y, guess, pos_label=1, zero_division=0.0)
            values["auroc"] = m.roc_auc_score(y, p[:, 1])
        else:
            values["auroc_macro_ovr"] = m.roc_auc_score(y, p, multi_class="ovr", average="macro", labels=list(range(k)))
        cases.append({"name": name, "task": "classification", "logits": tensor(logits), "targets": targets, "values": values})

    two = wave([40, 2], 1.0, 0.3)
    targets = [int((i * 13 + 5) % 7 < 3) for i in range(40)]
    classes("binary", two, targets, 1)
    tied = np.round(two * 2) / 2  # many equal scores: AUROC must count ties as half
    classes("binary_ties", tied, targets, 1)
    many = wave([60, 5], 1.3, 0.8)
    classes("five_classes", many, [(i * 7 + i // 4) % 5 for i in range(60)], 2)
    skewed = many.copy()
    skewed[:, 4] -= 10.0  # a class that is never predicted
    skewed = skewed.astype(np.float32).astype(np.float64)
    classes("five_classes_one_never_predicted", skewed, [(i * 7 + i // 3) % 5 for i in range(60)], 2)
    guess, wanted = wave([30], 1.0, 0.4), wave([30], 1.1, 0.5)
    cases.append({"name": "regression", "task": "regression", "predictions": flat(guess), "targets": flat(wanted), "values": {
        "mse": m.mean_squared_error(wanted, guess), "mae": m.mean_absolute_error(wanted, guess), "r2": m.r2_score(wanted, guess)}})
    save("metrics.json", f"Metrics as scikit-learn {sklearn.__version__} defines them, in float64. f1_macro is the mean over all "
         "classes, 0 for a class without predictions and samples.", cases)


if __name__ == "__main__":
    torch.set_num_threads(1)
    for record in (losses, optimizers, schedules, norms, activations, attention, convolutions, metrics):
        record()
