"""The models of configs/bench in PyTorch, with their batches and optimisers, as one would write them by hand."""

import torch
import torch.nn.functional as F
from torch import nn


class Attention(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.qkv = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, width)

    def forward(self, x):
        n, length, width = x.shape
        parts = self.qkv(x).split(width, dim=2)
        q, k, v = (part.view(n, length, self.heads, -1).transpose(1, 2) for part in parts)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.out(y.transpose(1, 2).reshape(n, length, width))


class TransformerBlock(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.norm1, self.attention = nn.LayerNorm(width), Attention(width, heads)
        self.norm2 = nn.LayerNorm(width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x):
        x = x + self.attention(self.norm1(x))
        return x + self.down(F.gelu(self.up(self.norm2(x))))


class Gpt(nn.Module):
    def __init__(self, layers=4, width=256, heads=4, vocabulary=1024, length=128):
        super().__init__()
        self.tokens, self.positions = nn.Embedding(vocabulary, width), nn.Embedding(length, width)
        self.blocks = nn.ModuleList(TransformerBlock(width, heads) for _ in range(layers))
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, vocabulary, bias=False)
        self.head.weight = self.tokens.weight
        nn.init.normal_(self.tokens.weight, std=0.02)
        self.register_buffer("places", torch.arange(length))

    def forward(self, ids):
        x = self.tokens(ids) + self.positions(self.places)
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x)).flatten(0, 1)


class ResidualBlock(nn.Module):
    def __init__(self, before, width, stride):
        super().__init__()
        self.conv1 = nn.Conv2d(before, width, 3, stride, 1, bias=False)
        self.norm1 = nn.BatchNorm2d(width)
        self.conv2 = nn.Conv2d(width, width, 3, 1, 1, bias=False)
        self.norm2 = nn.BatchNorm2d(width)
        self.shortcut = nn.Sequential()
        if stride != 1 or before != width:
            self.shortcut = nn.Sequential(nn.Conv2d(before, width, 1, stride, bias=False), nn.BatchNorm2d(width))

    def forward(self, x):
        y = F.relu(self.norm1(self.conv1(x)), inplace=True)
        return F.relu(self.norm2(self.conv2(y)) + self.shortcut(x), inplace=True)


def resnet20():
    layers = [nn.Conv2d(3, 16, 3, 1, 1, bias=False), nn.BatchNorm2d(16), nn.ReLU(inplace=True)]
    before = 16
    for width in (16, 32, 64):
        for place in range(3):
            layers.append(ResidualBlock(before, width, 2 if place == 0 and width > 16 else 1))
            before = width
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(64, 10))


def mlp():
    return nn.Sequential(nn.Linear(105, 256), nn.ReLU(), nn.Linear(256, 256), nn.ReLU(), nn.Linear(256, 2))


def digits():
    convolutions = []
    for before in (1, 32):
        convolutions += [nn.Conv2d(before, 32, 3, 1, 1, bias=False), nn.BatchNorm2d(32), nn.ReLU()]
    return nn.Sequential(
        *convolutions, nn.MaxPool2d(2), nn.Flatten(), nn.Dropout(0.2), nn.Linear(512, 64), nn.ReLU(), nn.Linear(64, 10)
    )


def adamw(rate):
    return lambda parameters: torch.optim.AdamW(parameters, lr=rate, weight_decay=0.01)


def sgd(rate):
    return lambda parameters: torch.optim.SGD(parameters, lr=rate, momentum=0.9)


def images(channels, side):
    return lambda n: (torch.randn(n, channels, side, side), torch.randint(10, (n,)))


def rows(n):
    return torch.randn(n, 105), torch.randint(2, (n,))


def tokens(n):
    ids = torch.randint(1024, (n, 129))
    return ids[:, :-1].contiguous(), ids[:, 1:].contiguous()


# Model, samples in memory, how they are drawn, samples of a step, optimiser.
WORKLOADS = {
    "gpt": (Gpt, 256, tokens, 16, adamw(3e-4)),
    "resnet20": (resnet20, 512, images(3, 32), 128, sgd(0.01)),
    "mlp": (mlp, 4096, rows, 512, adamw(1e-3)),
    "digits": (digits, 1280, images(1, 8), 64, adamw(3e-3)),
}
