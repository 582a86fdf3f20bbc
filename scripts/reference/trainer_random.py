"""The trainer's counter-based random numbers, in numpy: order, splits and initial weights.

Written from the definitions in src/plan (rng.rs, permutation.rs), src/data/split.rs,
src/data/text/window.rs and src/model/initial.rs, so that a reference in PyTorch can start from the same weights and see the
same samples in the same order. Philox 4x32-10: Salmon et al., SC 2011.
"""

import numpy as np

ORDER, SPLIT, INITIAL = 1, 2, 3
CHUNK = 1 << 14
M32, M64 = 0xFFFFFFFF, 0xFFFFFFFFFFFFFFFF


def philox(counter, key):
    """One block per element; `counter` is four uint64 arrays of 32-bit values, `key` two ints."""
    c = [np.asarray(x, dtype=np.uint64) for x in counter]
    k0, k1 = key
    low = np.uint64(M32)
    for _ in range(10):
        first, second = c[0] * np.uint64(0xD2511F53), c[2] * np.uint64(0xCD9E8D57)
        c = [(second >> np.uint64(32)) ^ c[1] ^ np.uint64(k0), second & low,
             (first >> np.uint64(32)) ^ c[3] ^ np.uint64(k1), first & low]
        k0, k1 = (k0 + 0x9E3779B9) & M32, (k1 + 0xBB67AE85) & M32
    return c


def stream(seed, purpose, major, minor, count):
    """The first `count` 64-bit values of a stream."""
    folded = philox([np.array([major & M32]), np.array([major >> 32]), np.array([purpose]), np.array([0])],
                    (seed & M32, seed >> 32))
    key = (int(folded[0][0]), int(folded[1][0]))
    blocks = np.arange((count + 1) // 2, dtype=np.uint64)
    a, b, c, d = philox([blocks & np.uint64(M32), blocks >> np.uint64(32),
                         np.full_like(blocks, minor & M32), np.full_like(blocks, minor >> 32)], key)
    words = np.stack([a, b, c, d], 1).reshape(-1)
    return (words[0::2] | words[1::2] << np.uint64(32))[:count]


def uniform(bits):
    return (bits >> np.uint64(11)).astype(np.float64) * 2.0**-53


def name_hash(name):
    h = 0xCBF29CE484222325
    for byte in name.encode():
        h = ((h ^ byte) * 0x100000001B3) & M64
    return h


def initial(seed, name, shape, kind, scale):
    """Initial values of a parameter as float32: kind "uniform" in [-scale, scale), "normal" with
    deviation scale, "zeros" or "ones"."""
    n = int(np.prod(shape))
    if kind in ("zeros", "ones"):
        return np.full(shape, float(kind == "ones"), dtype=np.float32)
    out = []
    for chunk in range(-(-n // CHUNK)):
        size = min(CHUNK, n - chunk * CHUNK)
        u = uniform(stream(seed, INITIAL, name_hash(name), chunk, size + size % 2))
        if kind == "uniform":
            values = (2.0 * u - 1.0) * scale
        else:
            radius, angle = np.sqrt(-2.0 * np.log(1.0 - u[0::2])), 2.0 * np.pi * u[1::2]
            values = np.stack([radius * np.cos(angle), radius * np.sin(angle)], 1).reshape(-1) * scale
        out.append(values[:size])
    return np.concatenate(out).astype(np.float32).reshape(shape)


def permutation(count, seed, purpose, index):
    """The whole order: element at each place."""
    keys = stream(seed, purpose, index, 0, 6)
    bits = (count - 1).bit_length()
    half = np.uint64(max(-(-bits // 2), 1))
    mask = np.uint64((1 << int(half)) - 1)

    def mix(v):
        v = (v ^ v >> np.uint64(30)) * np.uint64(0xBF58476D1CE4E5B9)
        v = (v ^ v >> np.uint64(27)) * np.uint64(0x94D049BB133111EB)
        return v ^ v >> np.uint64(31)

    def encipher(v):
        left, right = v >> half, v & mask
        for key in keys:
            left, right = right, left ^ (mix(right ^ key) & mask)
        return left << half | right

    values = encipher(np.arange(count, dtype=np.uint64))
    while (outside := values >= count).any():
        values[outside] = encipher(values[outside])
    return values.astype(np.int64)


def split(count, fraction, seed):
    """(training, held out) indices in increasing order, for one held-out fraction."""
    held = max(int(np.floor(count * fraction + 0.5)), 1)
    chosen = permutation(count, seed, SPLIT, 0)[:held]
    mask = np.zeros(count, dtype=bool)
    mask[chosen] = True
    return np.flatnonzero(~mask), np.flatnonzero(mask)


def split_windows(count, fraction, seed):
    """The same for `count` windows of a text, which are held out in blocks (src/data/text/window.rs)."""
    block = min(max(count // 100, 1), 16)
    blocks = np.arange(count) // block
    kept, held = split(int(blocks[-1]) + 1, fraction, seed)
    return np.flatnonzero(np.isin(blocks, kept)), np.flatnonzero(np.isin(blocks, held))


def counted(windows, length, tokens):
    """Which targets of each window of a text of `tokens` tokens count: not its last one where the next
    token is in another part, or there is none."""
    mask = np.ones((len(windows), length), dtype=bool)
    after = windows + 1
    is_tail = (after == tokens // length) & (tokens % length > 0)
    mask[:, -1] = np.isin(after, windows) | is_tail
    return mask


if __name__ == "__main__":
    # Known answers published with Random123.
    one = lambda *xs: [np.array([x]) for x in xs]
    assert [int(x[0]) for x in philox(one(0, 0, 0, 0), (0, 0))] == [0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8]
    pi = philox(one(0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344), (0xA4093822, 0x299F31D0))
    assert [int(x[0]) for x in pi] == [0xD16CFE09, 0x94FDCCEB, 0x5001E420, 0x24126EA1]
    assert sorted(permutation(1000, 7, ORDER, 3)) == list(range(1000))
    print("ok")
