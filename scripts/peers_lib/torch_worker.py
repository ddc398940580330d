"""PyTorch's side of `peers nets`: a process that reads commands on standard input and answers each with one JSON line.

  load NAME SIDE WEIGHTS             names the network and a safetensors file
  use VARIANT                        makes a variant of it; the one before is forgotten
  time BATCH RUNS SECONDS            at least so many runs and seconds, after one to warm up if the batch is new
  run VARIANT IN OUT                 the outputs for tensor `x` of a safetensors file; `float64` is the truth
  photo FILE SIDE OUT                a photograph as tensor `x`
  compare TRUTH OTHER                relative errors over all tensors of two files
  drop                               forgets the network

Variants: `plain` is the module as it comes; `folded` has its batch norms folded into the convolutions, `folded_last` is
that in channels-last layout, and `frozen` went through TorchScript's `optimize_for_inference`, which chooses oneDNN's
own layouts. Peak memory is counted from the last `use`.
"""

import ctypes
import gc
import json
import sys
import time
import warnings

import torch
import torchvision
from PIL import Image
from safetensors.torch import load_file, save_file
from torch import nn
from torch.fx.experimental.optimization import fuse


class Taps(nn.Module):
    """A torchvision `features` and the activations LPIPS takes from it."""

    def __init__(self, features, taps):
        super().__init__()
        self.features = features[:taps[-1] + 1]
        self.taps = taps

    def forward(self, x):
        found = []
        for index, layer in enumerate(self.features):
            x = layer(x)
            if index in self.taps:
                found.append(x)
        return found


class Fid(nn.Module):
    """pytorch-fid's network and its mean over pixels."""

    def __init__(self, block):
        super().__init__()
        import pytorch_fid.inception as fid

        # It loads its weights as it is built: build it without.
        fid.load_state_dict_from_url = lambda *_, **__: {}
        load_state_dict = nn.Module.load_state_dict
        nn.Module.load_state_dict = lambda *_, **__: None
        self.net = fid.InceptionV3([block], resize_input=False, normalize_input=False)
        nn.Module.load_state_dict = load_state_dict

    def forward(self, x):
        return [nn.functional.adaptive_avg_pool2d(self.net(x)[0], 1).flatten(1)]

    def load(self, state):
        """`blocks.N.M.` are the layers of the whole network, in its order."""
        names = [["Conv2d_1a_3x3", "Conv2d_2a_3x3", "Conv2d_2b_3x3"], ["Conv2d_3b_1x1", "Conv2d_4a_3x3"],
                 ["Mixed_5b", "Mixed_5c", "Mixed_5d", "Mixed_6a", "Mixed_6b", "Mixed_6c", "Mixed_6d", "Mixed_6e"],
                 ["Mixed_7a", "Mixed_7b", "Mixed_7c"]]
        for block, layers in zip(self.net.blocks, names):
            with_weights = [layer for layer in block if any(True for _ in layer.parameters())]
            for name, layer in zip(layers, with_weights, strict=True):
                load(layer, {k[len(name) + 1:]: v for k, v in state.items() if k.startswith(name + ".")})


class Logits(nn.Module):
    def __init__(self, net):
        super().__init__()
        self.net = net

    def forward(self, x):
        return [self.net(x)]


def load(module, state):
    missing, unexpected = module.load_state_dict(state, strict=False)
    missing = [k for k in missing if not k.endswith(("num_batches_tracked", "relative_position_index"))]
    if missing:
        raise ValueError(f"the weights have no {missing[:3]}")
    return unexpected


def build(name, state):
    if name == "inception_stem":
        net = Fid(0)
        net.load(state)
    elif name == "inception":
        net = Fid(3)
        net.load(state)
    elif name.endswith("_features"):
        taps = {"alexnet": [1, 4, 7, 9, 11], "squeezenet1_1": [1, 4, 7, 9, 10, 11, 12], "vgg16": [3, 8, 15, 22, 29]}
        name = name.removesuffix("_features")
        net = Taps(getattr(torchvision.models, name)(weights=None).features, taps[name])
        load(net, state)
    elif name == "efficientnet_lite0":
        from efficientnet_lite_pytorch import EfficientNet

        net = Logits(EfficientNet.from_name("efficientnet-lite0"))
        load(net.net, state)
    else:
        net = Logits(getattr(torchvision.models, name)(weights=None))
        load(net.net, state)
    return net.eval()


def plain_convolutions(net):
    """Makes efficientnet-lite's convolutions PyTorch's own, so that norms fold into them."""
    for parent in list(net.modules()):
        for name, conv in list(parent.named_children()):
            if isinstance(conv, nn.Conv2d) and type(conv) is not nn.Conv2d:
                sides = getattr(conv.static_padding, "padding", (0, 0, 0, 0))
                left, right, top, bottom = sides
                even = left == right and top == bottom
                plain = nn.Conv2d(conv.in_channels, conv.out_channels, conv.kernel_size, conv.stride,
                                  (top, left) if even else 0, conv.dilation, conv.groups, conv.bias is not None)
                load(plain, conv.state_dict())
                if not even:
                    plain = nn.Sequential(nn.ZeroPad2d(sides), plain)
                setattr(parent, name, plain.eval())
    return net


class Worker:
    def load(self, name, side, weights):
        self.drop()
        self.name, self.side, self.weights = name, int(side), weights
        return {}

    def drop(self):
        self.used = None
        collect()
        return {}

    def use(self, variant):
        self.used = None
        self.used, self.variant, self.warm = self.make(variant), variant, set()
        collect()
        return {}

    def make(self, variant):
        net = build(self.name, load_file(self.weights))
        if variant == "float64":
            return net.double()
        if variant == "plain":
            return net
        last = torch.channels_last if variant.endswith("_last") else torch.contiguous_format
        folded = fuse(torch.fx.symbolic_trace(plain_convolutions(net))).to(memory_format=last)
        if any(isinstance(module, nn.BatchNorm2d) for module in folded.modules()):
            raise ValueError("a batch norm is left")
        if variant != "frozen":
            return folded
        x = torch.zeros(1, 3, self.side, self.side)
        with torch.no_grad():
            return torch.jit.optimize_for_inference(torch.jit.freeze(torch.jit.trace(folded, x)))

    def time(self, batch, runs, seconds):
        batch, runs, seconds = int(batch), int(runs), float(seconds)
        generator = torch.Generator().manual_seed(1)
        x = arranged(self.variant, torch.rand(batch, 3, self.side, self.side, generator=generator) * 2 - 1)
        wall, cpu = [], []
        with torch.inference_mode():
            if batch not in self.warm:
                # The second run of a TorchScript graph optimises it once more.
                self.used(x), self.used(x)
                self.warm.add(batch)
            start = time.perf_counter()
            while len(wall) < runs or time.perf_counter() - start < seconds:
                before = time.perf_counter(), time.process_time()
                self.used(x)
                wall.append((time.perf_counter() - before[0]) * 1e3)
                cpu.append((time.process_time() - before[1]) * 1e3)
        return {"wall": summary(wall), "cpu": summary(cpu), "runs": len(wall)}

    def run(self, variant, file, out):
        x = load_file(file)["x"]
        x = x.double() if variant == "float64" else arranged(variant, x)
        with torch.inference_mode():
            outputs = self.make(variant)(x)
        save_file({str(i): y.contiguous() for i, y in enumerate(outputs)}, out)
        return {}


    def photo(self, file, side, out):
        image = Image.open(file).convert("RGB").resize((int(side), int(side)), Image.BICUBIC)
        x = torchvision.transforms.functional.to_tensor(image)
        x = torchvision.transforms.functional.normalize(x, (0.485, 0.456, 0.406), (0.229, 0.224, 0.225))
        save_file({"x": x[None].contiguous()}, out)
        return {}

    def compare(self, truth, other):
        truth, other = (load_file(file) for file in (truth, other))
        if truth.keys() != other.keys():
            raise ValueError("other tensors")
        # Taps differ in size, so that each is compared for itself; the worst counts.
        l2, largest = 0.0, 0.0
        for name, expected in truth.items():
            difference = other[name].double().reshape(expected.shape) - expected
            l2 = max(l2, float(difference.norm() / expected.norm()))
            largest = max(largest, float(difference.abs().max() / expected.abs().max()))
        return {"l2": l2, "largest": largest}


def arranged(variant, x):
    return x.to(memory_format=torch.channels_last) if variant.endswith("_last") else x


def collect():
    """Gives freed memory back, and counts the peak from here."""
    gc.collect()
    ctypes.CDLL(None).malloc_trim(0)
    with open("/proc/self/clear_refs", "w") as file:
        file.write("5")


def summary(values):
    values = sorted(values)
    return {"best": values[0], "median": values[len(values) // 2]}


def rss():
    with open("/proc/self/status") as file:
        fields = dict(line.split(":", 1) for line in file)
    return {key: int(fields[key].split()[0]) / 1024 for key in ("VmRSS", "VmHWM")}


def main(threads):
    warnings.filterwarnings("ignore")
    torch.set_num_threads(int(threads))
    worker = Worker()
    for line in sys.stdin:
        command, *arguments = line.split()
        try:
            answer = getattr(worker, command)(*arguments)
        except Exception as error:
            answer = {"error": f"{line.strip()}: {type(error).__name__}: {error}"}
        print(json.dumps({**answer, "rss": rss()}), flush=True)


if __name__ == "__main__":
    main(sys.argv[1])
