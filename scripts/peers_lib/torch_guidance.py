"""PyTorch's side of `peers guidance`: one guided diffusion step on UNets of the widths of benches/guided/mod.rs.

    torch_guidance.py THREADS SECONDS     prints a line of JSON for each size: milliseconds of the best layout's best run
"""

import json
import math
import sys
import time

import torch
import torch.nn.functional as F

SIZES = {
    "32x32_c32": dict(side=32, channels=32, levels=[1, 2], per_head=16),
    "64x64_c64": dict(side=64, channels=64, levels=[1, 2, 2], per_head=64),
    "64x64_c128": dict(side=64, channels=128, levels=[1, 2, 2], per_head=64),
}
CLASSES = 10


class Weights:
    def __init__(self, time_channels):
        self.dict, self.time = {}, time_channels
        self.random = torch.Generator().manual_seed(7)

    def put(self, name, shape):
        inputs = math.prod(shape[1:])
        self.dict[name] = (torch.rand(shape, generator=self.random) * 2 - 1) / math.sqrt(inputs)

    def layer(self, name, *shape):
        self.put(name + ".weight", shape)
        self.put(name + ".bias", shape[:1])

    def residual(self, at, i, o):
        self.layer(at + ".in_layers.0", i)
        self.layer(at + ".in_layers.2", o, i, 3, 3)
        self.layer(at + ".emb_layers.1", 2 * o, self.time)
        self.layer(at + ".out_layers.0", o)
        self.layer(at + ".out_layers.3", o, o, 3, 3)
        if i != o:
            self.layer(at + ".skip_connection", o, i, 1, 1)

    def attend(self, at, c):
        self.layer(at + ".norm", c)
        self.layer(at + ".qkv", 3 * c, c, 1)
        self.layer(at + ".proj_out", c, c, 1)

    def encoder(self, s):
        c = s["channels"]
        self.layer("time_embed.0", self.time, c)
        self.layer("time_embed.2", self.time, self.time)
        self.layer("input_blocks.0.0", c, 3, 3, 3)
        widths = [c]
        for level, multiple in enumerate(s["levels"]):
            at, o = f"input_blocks.{len(widths)}", multiple * s["channels"]
            self.residual(at + ".0", c, o)
            c = o
            widths.append(c)
            if level + 1 < len(s["levels"]):
                self.residual(f"input_blocks.{len(widths)}.0", c, c)
                widths.append(c)
            else:
                self.attend(at + ".1", c)
        self.residual("middle_block.0", c, c)
        self.attend("middle_block.1", c)
        self.residual("middle_block.2", c, c)
        return widths

    def decoder(self, s, widths):
        widths, c, index = list(widths), widths[-1], 0
        for level in reversed(range(len(s["levels"]))):
            o = s["levels"][level] * s["channels"]
            for i in range(2):
                at = f"output_blocks.{index}"
                self.residual(at + ".0", c + widths.pop(), o)
                c = o
                attend = level + 1 == len(s["levels"])
                if attend:
                    self.attend(at + ".1", c)
                if level > 0 and i == 1:
                    self.residual(f"{at}.{1 + attend}", c, c)
                index += 1
        self.layer("out.0", c)
        self.layer("out.2", 6, c, 3, 3)

    def pool(self, s, c):
        side = s["side"] >> (len(s["levels"]) - 1)
        self.layer("out.0", c)
        self.put("out.2.positional_embedding", (c, side * side + 1))
        self.layer("out.2.qkv_proj", 3 * c, c, 1)
        self.layer("out.2.c_proj", CLASSES, c, 1)


class Net:
    def __init__(self, weights, size, channels_last):
        self.size, self.w = size, weights.dict
        if channels_last:
            self.w = {k: v.contiguous(memory_format=torch.channels_last) if v.dim() == 4 else v for k, v in self.w.items()}

    def p(self, name):
        return self.w[name + ".weight"], self.w[name + ".bias"]

    def norm(self, name, x):
        return F.group_norm(x, 32, *self.p(name), eps=1e-5)

    def time(self, t):
        half = self.size["channels"] // 2
        frequencies = torch.exp(-math.log(10000) * torch.arange(half) / half)
        angles = t[:, None] * frequencies[None]
        e = torch.cat([angles.cos(), angles.sin()], 1)
        e = F.silu(F.linear(e, *self.p("time_embed.0")))
        return F.silu(F.linear(e, *self.p("time_embed.2")))

    def residual(self, at, x, e, resample=None):
        h = F.silu(self.norm(at + ".in_layers.0", x))
        if resample == "halve":
            h, x = F.avg_pool2d(h, 2), F.avg_pool2d(x, 2)
        elif resample == "double":
            h, x = F.interpolate(h, scale_factor=2), F.interpolate(x, scale_factor=2)
        h = F.conv2d(h, *self.p(at + ".in_layers.2"), padding=1)
        scale, shift = F.linear(e, *self.p(at + ".emb_layers.1"))[..., None, None].chunk(2, 1)
        h = F.silu(self.norm(at + ".out_layers.0", h) * (1 + scale) + shift)
        h = F.conv2d(h, *self.p(at + ".out_layers.3"), padding=1)
        if at + ".skip_connection.weight" in self.w:
            x = F.conv2d(x, *self.p(at + ".skip_connection"))
        return x + h

    def attention(self, qkv, per_head, legacy):
        n, c3, length = qkv.shape
        heads = c3 // 3 // per_head
        if legacy:
            q, k, v = qkv.reshape(n * heads, 3 * per_head, length).split(per_head, 1)
        else:
            q, k, v = [t.reshape(n * heads, per_head, length) for t in qkv.chunk(3, 1)]
        scale = 1 / math.sqrt(math.sqrt(per_head))
        weight = torch.einsum("bct,bcs->bts", q * scale, k * scale).softmax(-1)
        return torch.einsum("bts,bcs->bct", weight, v).reshape(n, -1, length)

    def attend(self, at, x):
        n, c, h, w = x.shape
        flat = x.reshape(n, c, h * w)
        qkv = F.conv1d(self.norm(at + ".norm", flat), *self.p(at + ".qkv"))
        mixed = self.attention(qkv, self.size["per_head"], True)
        return (flat + F.conv1d(mixed, *self.p(at + ".proj_out"))).reshape(n, c, h, w)

    def encode(self, x, t):
        e = self.time(t)
        h = F.conv2d(x, *self.p("input_blocks.0.0"), padding=1)
        skips, index, levels = [h], 1, len(self.size["levels"])
        for level in range(levels):
            h = self.residual(f"input_blocks.{index}.0", h, e)
            if level + 1 == levels:
                h = self.attend(f"input_blocks.{index}.1", h)
            skips.append(h)
            index += 1
            if level + 1 < levels:
                h = self.residual(f"input_blocks.{index}.0", h, e, "halve")
                skips.append(h)
                index += 1
        h = self.residual("middle_block.0", h, e)
        h = self.attend("middle_block.1", h)
        return self.residual("middle_block.2", h, e), skips, e

    def denoise(self, x, t):
        h, skips, e = self.encode(x, t)
        index, levels = 0, len(self.size["levels"])
        for level in reversed(range(levels)):
            for i in range(2):
                at = f"output_blocks.{index}"
                h = self.residual(at + ".0", torch.cat([h, skips.pop()], 1), e)
                attend = level + 1 == levels
                if attend:
                    h = self.attend(at + ".1", h)
                if level > 0 and i == 1:
                    h = self.residual(f"{at}.{1 + attend}", h, e, "double")
                index += 1
        return F.conv2d(F.silu(self.norm("out.0", h)), *self.p("out.2"), padding=1)

    def judge(self, x, t):
        h = F.silu(self.norm("out.0", self.encode(x, t)[0]))
        flat = h.flatten(2)
        flat = torch.cat([flat.mean(-1, keepdim=True), flat], -1) + self.w["out.2.positional_embedding"]
        mixed = self.attention(F.conv1d(flat, *self.p("out.2.qkv_proj")), self.size["per_head"], False)
        return F.conv1d(mixed, *self.p("out.2.c_proj"))[:, :, 0]


def step(unet, judge, x):
    x = x.detach().requires_grad_()
    noise = unet.denoise(x, torch.tensor([500.0]))[:, :3]
    verdict = F.log_softmax(judge.judge(1.2 * x - 0.6 * noise, torch.tensor([0.0])), -1)[:, 3].sum()
    return torch.autograd.grad(verdict, x)[0]


def best(run, seconds):
    """Milliseconds of the best of at least three runs."""
    run()
    times, end = [], time.perf_counter() + seconds
    while len(times) < 3 or time.perf_counter() < end:
        start = time.perf_counter()
        run()
        times.append(1e3 * (time.perf_counter() - start))
    return min(times)


def main():
    torch.set_num_threads(int(sys.argv[1]))
    seconds = float(sys.argv[2])
    for name, size in SIZES.items():
        denoiser, classifier = Weights(4 * size["channels"]), Weights(4 * size["channels"])
        denoiser.decoder(size, denoiser.encoder(size))
        classifier.pool(size, classifier.encoder(size)[-1])
        x = torch.rand(1, 3, size["side"], size["side"]) * 2 - 1
        layouts = []
        for channels_last in (False, True):
            unet, judge = Net(denoiser, size, channels_last), Net(classifier, size, channels_last)
            image = x.contiguous(memory_format=torch.channels_last) if channels_last else x
            layouts.append(best(lambda: step(unet, judge, image), seconds / 2))
        print(json.dumps({"size": name, "ms": min(layouts)}), flush=True)


if __name__ == "__main__":
    main()
