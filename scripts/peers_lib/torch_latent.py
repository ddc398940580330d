"""The released package's explainers on a small world, and the printed listing of orthogonal sets in numpy.

  explain WORLD NAME FOIL   explains the world's samples by an explainer of the package; compares with foil's latents where nothing is random
  make-sets FILE N          random candidates of N samples
  sets FILE                 selects their sets
"""

import json
import sys
import time

import numpy as np


class Store(dict):
    """Stands for the package's HDF5 cache: what is put in comes out as an array."""

    def __setitem__(self, key, value):
        super().__setitem__(key, np.asarray(value))


def explain(folder, name, foil):
    import torch
    from safetensors.torch import load_file
    from bex.explainers.dice import Dice
    from bex.explainers.dive import Dive
    from bex.explainers.gs import GrowingSpheres
    from bex.explainers.informed import InformedSearch
    from bex.explainers.latent_cf import LCF
    from bex.explainers.stylex import Stylex
    from bex.explainers.xgem import Xgem

    model, stats = load_file(f"{folder}/world_model.safetensors"), load_file(f"{folder}/world_stats.safetensors")

    def layer(prefix):
        return lambda x: torch.nn.functional.linear(x, model[f"{prefix}.weight"], model[f"{prefix}.bias"])

    g1, g2, a, b, c = map(layer, ["generator.l1", "generator.l2", "classifier.a", "classifier.b", "classifier.c"])
    mean, std, low, high = (stats[k] for k in ("latent_mean", "latent_std", "clip_min", "clip_max"))

    def decode(raw):
        return torch.tanh(g2(torch.tanh(g1(raw)))).view(-1, 3, 4, 4)

    def classifier(x):
        return c(torch.tanh(b(torch.tanh(a(x.flatten(1))))))

    # The same call that the package's benchmark hands to its explainers: coordinate by coordinate.
    def generator(z):
        clipped = z.clone()
        for i in range(z.shape[-1]):
            clipped[..., i] = torch.clamp(z[..., i], min=low[i], max=high[i])
        clipped = clipped * std + mean
        clipped[:, -5] = torch.where(clipped[:, -5] < 0.5, 0.0, 1.0)
        return decode(clipped)

    torch.manual_seed(0)
    np.random.seed(0)
    if name == "is":
        class Holder:
            pass
        loader, inner, data, net = Holder(), Holder(), Holder(), Holder()
        data.correlated = stats["correlated_fonts"].numpy()
        inner.dataset, loader.dataset = data, inner
        net.model = Holder()
        net.model.font_embedding = Holder()
        net.model.font_embedding.weight = model["generator.font_embedding.weight"]
        explainer = InformedSearch(None, net, loader)
    else:
        kinds = {"latent-cf": LCF, "stylex": Stylex, "gs": GrowingSpheres, "xgem": Xgem, "dive": Dive, "dice": Dice}
        explainer = kinds[name]()
    explainer.latent_mean, explainer.latent_std = mean, std
    explainer.mus_min, explainer.mus_max = low, high
    explainer.train_mus = stats["train_latents_raw"]
    explainer.loaded_data = Store()
    z, logits = stats["z"], stats["logits"]
    images = decode(z * std + mean).detach()
    made, seconds = [], 0.0
    for first in range(0, len(z), 12):
        own = slice(first, first + 12)
        start = time.perf_counter()
        found = explainer.explain_batch(z[own].clone(), logits[own].clone(), images[own], classifier, generator)
        seconds += time.perf_counter() - start
        made.append(found.detach())
    made = torch.cat(made)
    difference = None
    if name in ("latent-cf", "stylex"):
        ours = load_file(foil)
        difference = float((ours["z_cf"] - made).abs().max()) if ours["z_cf"].shape == made.shape else float("inf")
    print(json.dumps({"seconds": seconds, "count": made.shape[0] * made.shape[1], "difference": difference}))


def make_sets(file, samples):
    from safetensors.numpy import save_file
    rng = np.random.default_rng(0)
    original = rng.normal(size=(samples, 101)).astype(np.float32)
    steps = rng.normal(size=(samples, 10, 101)) * (rng.random((samples, 10, 101)) < 0.15)
    save_file({"original": original, "perturbed": (original[:, None] + steps).astype(np.float32)}, file)


def orthogonal_set(z, candidates, tau=0.15):
    """The algorithm of the paper's listing: norms floored, a stable order."""
    delta = candidates.astype(np.float64) - z
    order = np.argsort(np.abs(delta).sum(1), kind="stable")
    unit = delta / np.maximum(np.linalg.norm(delta, axis=1), 1e-8)[:, None]
    members = [order[0]]
    for i in order[1:]:
        cosines = unit[members] @ unit[i]
        if (np.abs(cosines) < tau).all() or (cosines + 1 < tau).any():
            members.append(i)
    return members


def sets(file):
    from safetensors.numpy import load_file
    arrays = load_file(file)
    start = time.perf_counter()
    sizes = [len(orthogonal_set(z, e)) for z, e in zip(arrays["original"].astype(np.float64), arrays["perturbed"])]
    print(json.dumps({"seconds": time.perf_counter() - start, "sizes": sizes}))


if __name__ == "__main__":
    task, *rest = sys.argv[1:]
    if task == "explain":
        explain(*rest)
    elif task == "make-sets":
        make_sets(rest[0], int(rest[1]))
    else:
        sets(*rest)
