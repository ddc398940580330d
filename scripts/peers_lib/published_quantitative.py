"""What `peers quantitative` runs inside a venv: `make FOLDER N` writes images and networks, `score FOLDER torch|keras` evaluates
them as the published program does, by one call of a network for each image and metric."""

import json
import sys
from pathlib import Path

import numpy as np
from safetensors.numpy import load_file, save_file


def make(folder, n):
    random = np.random.default_rng(7)
    real = np.where(random.random((n, 28, 28)) < 0.8, 0, random.integers(0, 256, (n, 28, 28))).astype(np.uint8)
    made = np.clip(real.astype(int) + random.integers(-40, 41, real.shape), 0, 255).astype(np.uint8)
    real[0, 0, :2] = made[0, 0, :2] = (0, 255)
    original = random.integers(0, 10, n)
    target = (original + random.integers(1, 10, n)) % 10
    np.save(folder / "real.npy", real)
    np.savez(folder / "cf.npz", cfs=made, orig_pred=original, q=target, cf_pred=target)

    def layer(*shape):
        weight = random.standard_normal(shape) / np.sqrt(np.prod(shape[1:]))
        return weight.astype(np.float32), (0.1 * random.standard_normal(shape[0])).astype(np.float32)

    shapes = [("encoder", 1, (16, 1, 3, 3)), ("encoder", 2, (16, 16, 3, 3)), ("encoder", 3, (1, 16, 3, 3)),
              ("decoder", 1, (16, 1, 3, 3)), ("decoder", 2, (16, 16, 3, 3)), ("decoder", 3, (1, 16, 3, 3))]
    arrays = {}
    for key in [*range(10), "all"]:
        for side, number, shape in shapes:
            name = f"ae_{key}.{side}.conv{number}"
            arrays[f"{name}.weight"], arrays[f"{name}.bias"] = layer(*shape)
    save_file(arrays, folder / "ae.safetensors")
    oracle = {}
    for name, shape in (("conv1", (32, 1, 2, 2)), ("conv2", (64, 32, 2, 2)), ("dense1", (256, 3136)), ("dense2", (10, 256))):
        oracle[f"{name}.weight"], oracle[f"{name}.bias"] = layer(*shape)
    save_file(oracle, folder / "oracle.safetensors")


class Torch:
    """The networks in PyTorch."""

    def __init__(self, folder):
        import torch
        from torch.nn import functional

        torch.set_grad_enabled(False)
        self.torch, self.F = torch, functional
        self.weights = {k: torch.from_numpy(v) for k, v in load_file(folder / "ae.safetensors").items()}
        self.net = {k: torch.from_numpy(v) for k, v in load_file(folder / "oracle.safetensors").items()}

    def autoencoder(self, key, x):
        F, weights = self.F, self.weights
        conv = lambda x, name: F.conv2d(x, weights[f"ae_{key}.{name}.weight"], weights[f"ae_{key}.{name}.bias"], padding=1)
        x = self.torch.from_numpy(x.astype(np.float32))[None, None]
        x = F.max_pool2d(F.relu(conv(F.relu(conv(x, "encoder.conv1")), "encoder.conv2")), 2)
        x = F.relu(conv(conv(x, "encoder.conv3"), "decoder.conv1"))
        x = F.relu(conv(F.interpolate(x, scale_factor=2), "decoder.conv2"))
        return conv(x, "decoder.conv3")[0, 0].numpy()

    def features(self, x):
        F, net = self.F, self.net
        x = self.torch.from_numpy(x.astype(np.float32))[:, None]
        for name in ("conv1", "conv2"):
            x = F.max_pool2d(F.relu(F.conv2d(F.pad(x, (0, 1, 0, 1)), net[f"{name}.weight"], net[f"{name}.bias"])), 2)
        return F.linear(x.permute(0, 2, 3, 1).flatten(1), net["dense1.weight"], net["dense1.bias"])

    def embed(self, x):
        return self.features(x).numpy()

    def oracle(self, x):
        net, F = self.net, self.F
        return F.linear(F.relu(self.features(x[None])), net["dense2.weight"], net["dense2.bias"]).softmax(1)[0].numpy()


class Keras:
    """The same as the published program has them: Keras models, of which `predict` is called."""

    def __init__(self, folder):
        import keras
        from keras import layers

        weights, net = load_file(folder / "ae.safetensors"), load_file(folder / "oracle.safetensors")

        def conv(name, of, activation=None, size=3):
            layer = layers.Conv2D(of[f"{name}.weight"].shape[0], size, padding="same", activation=activation)
            return layer, [of[f"{name}.weight"].transpose(2, 3, 1, 0), of[f"{name}.bias"]]

        def dense(name, activation=None):
            return layers.Dense(len(net[f"{name}.bias"]), activation=activation), [net[f"{name}.weight"].T, net[f"{name}.bias"]]

        def model(*parts):
            made = keras.Sequential([keras.Input((28, 28, 1)), *(p[0] if isinstance(p, tuple) else p for p in parts)])
            for part in parts:
                if isinstance(part, tuple):
                    part[0].set_weights(part[1])
            return made

        self.autoencoders = {
            key: model(conv(f"ae_{key}.encoder.conv1", weights, "relu"), conv(f"ae_{key}.encoder.conv2", weights, "relu"),
                       layers.MaxPooling2D(), conv(f"ae_{key}.encoder.conv3", weights), conv(f"ae_{key}.decoder.conv1", weights, "relu"),
                       layers.UpSampling2D(), conv(f"ae_{key}.decoder.conv2", weights, "relu"), conv(f"ae_{key}.decoder.conv3", weights))
            for key in [*map(str, range(10)), "all"]}
        stem = [conv("conv1", net, "relu", 2), layers.MaxPooling2D(), conv("conv2", net, "relu", 2), layers.MaxPooling2D(),
                layers.Flatten(), dense("dense1")]
        self.embedding = model(*stem)
        self.classifier = keras.Sequential([self.embedding, layers.ReLU(), layers.Dense(10, activation="softmax")])
        self.classifier.build((None, 28, 28, 1))
        self.classifier.layers[-1].set_weights(dense("dense2")[1])

    def autoencoder(self, key, x):
        return self.autoencoders[str(key)].predict(x[None, ..., None], verbose=0)[0, ..., 0]

    def embed(self, x):
        return self.embedding.predict(x[..., None], verbose=0)

    def oracle(self, x):
        return self.classifier.predict(x[None, ..., None], verbose=0)[0]


def score(folder, networks):
    autoencoder, oracle = networks.autoencoder, networks.oracle
    real, data = np.load(folder / "real.npy"), np.load(folder / "cf.npz")
    made, original, target, predicted = (data[k] for k in ("cfs", "orig_pred", "q", "cf_pred"))

    def scaled(x):
        x = x.astype(float) - x.min()
        return x / x.max() - 0.5

    real, made = scaled(real), scaled(made)

    def divergence(p, q):
        m = (p + q) / 2
        kl = lambda a: np.where(a > 0, a * np.log(np.where(a > 0, a, 1) / m), 0).sum()
        return (kl(p) + kl(q)) / 2

    kept = [i for i in range(len(made)) if predicted[i] != -1 and made[i].mean() != -0.5]
    square = lambda d: (d * d).sum()
    each = lambda metric: float(np.mean([metric(i) for i in kept]))
    found = {
        "target_class_validity": float(np.mean((predicted != -1) & (predicted != original))),
        "elastic_net": each(lambda i: np.abs(real[i] - made[i]).sum() + np.sqrt(square(real[i] - made[i]))),
        "im1": each(lambda i: square(made[i] - autoencoder(target[i], made[i])) / (square(made[i] - autoencoder(original[i], made[i])) + 1e-5)),
        "im2": each(lambda i: square(autoencoder(target[i], made[i]) - autoencoder("all", made[i])) / (np.abs(made[i]).sum() + 1e-5)),
        "oracle_score/oracle": each(lambda i: oracle(made[i]).argmax() == target[i]),
        "label_variation/digit": each(lambda i: divergence(oracle(real[i]), oracle(made[i]))),
    }
    batches = lambda x: np.concatenate([networks.embed(x[i : i + 256]) for i in range(0, len(x), 256)]).astype(float)
    a, b = batches(real[kept]), batches(made[kept])
    ca, cb = np.cov(a, rowvar=False), np.cov(b, rowvar=False)
    roots = np.sqrt(np.maximum(np.linalg.eigvals(ca @ cb).real, 0)).sum()
    found["fid"] = float(square(a.mean(0) - b.mean(0)) + np.trace(ca) + np.trace(cb) - 2 * roots)
    print(json.dumps(found))


if sys.argv[1] == "make":
    make(Path(sys.argv[2]), int(sys.argv[3]))
else:
    score(Path(sys.argv[2]), {"torch": Torch, "keras": Keras}[sys.argv[3]](Path(sys.argv[2])))
