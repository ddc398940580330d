"""What the comparisons run inside the venv: `python inside.py TASK ARGUMENTS…`. Only this file needs the packages."""

import json
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SIDE = 256
SEED = 20240
# Of the classifiers of `peers score`.
CLASSES = 10


def make_images(photos, folder, count):
    """`count` pairs: a crop of a photograph, and the same with an edit, as PNG."""
    import numpy as np
    from PIL import Image, ImageFilter

    random = np.random.default_rng(SEED)
    files = sorted(Path(photos).glob("*.png"))
    originals, counterfactuals = Path(folder, "originals"), Path(folder, "counterfactuals")
    originals.mkdir()
    counterfactuals.mkdir()
    for i in range(count):
        photo = Image.open(files[i % len(files)]).convert("RGB")
        side = int(random.integers(min(photo.size) * 5 // 8, min(photo.size) + 1))
        left = int(random.integers(0, photo.width - side + 1))
        top = int(random.integers(0, photo.height - side + 1))
        original = photo.crop((left, top, left + side, top + side)).resize((SIDE, SIDE), Image.BICUBIC)
        if random.random() < 0.5:
            original = original.transpose(Image.FLIP_LEFT_RIGHT)
        original.save(originals / f"{i:04}.png")
        # The edit: one region blurred and tinted, a little noise everywhere.
        region = int(random.integers(SIDE // 4, SIDE // 2))
        x, y = (int(v) for v in random.integers(0, SIDE - region, 2))
        edited = original.copy()
        edited.paste(original.crop((x, y, x + region, y + region)).filter(ImageFilter.GaussianBlur(3)), (x, y))
        pixels = np.asarray(edited).astype(np.float64)
        pixels[y:y + region, x:x + region] += random.uniform(-60, 60, 3)
        pixels += random.normal(0, 4, pixels.shape)
        Image.fromarray(np.clip(np.rint(pixels), 0, 255).astype(np.uint8)).save(counterfactuals / f"{i:04}.png")


def make_checkpoints(torch_home):
    """The weights files the tools would download, with the real values of weights/ where these are reached."""
    import pytorch_fid.inception
    import torch
    import torch_fidelity.feature_extractor_inceptionv3 as fidelity
    import torchvision
    from safetensors.torch import load_file

    folder = Path(torch_home, "hub", "checkpoints")
    folder.mkdir(parents=True)

    def save(state, real, url):
        missing = set(real) - set(state)
        if missing:
            sys.exit(f"peers: {url} has no tensors {sorted(missing)}")
        state.update({name: value.float() for name, value in real.items()})
        torch.save(state, folder / url.rsplit("/", 1)[-1])

    torch.manual_seed(SEED)
    alexnet = torchvision.models.alexnet(weights=None)
    save(alexnet.state_dict(), load_file(ROOT / "weights/alexnet_features_f16.safetensors"),
         torchvision.models.AlexNet_Weights.DEFAULT.url)

    # Both Inceptions load their file as they are built: build them without.
    stem = load_file(ROOT / "weights/inception_fid_stem.safetensors")
    load_state_dict = torch.nn.Module.load_state_dict
    torch.nn.Module.load_state_dict = lambda *_, **__: None
    for module, build, url in [
        (fidelity, lambda: fidelity.FeatureExtractorInceptionV3("inception", ["64"]), fidelity.URL_INCEPTION_V3),
        (pytorch_fid.inception, pytorch_fid.inception.fid_inception_v3, pytorch_fid.inception.FID_WEIGHTS_URL),
    ]:
        module.load_state_dict_from_url = lambda *_, **__: {}
        save(build().state_dict(), stem, url)
    torch.nn.Module.load_state_dict = load_state_dict


def run_torchmetrics(originals, counterfactuals):
    """What a user's script with torchmetrics looks like."""
    import torch
    from PIL import Image
    from torch.utils.data import DataLoader, Dataset
    from torchmetrics.image.fid import FrechetInceptionDistance
    from torchmetrics.image.lpip import LearnedPerceptualImagePatchSimilarity
    from torchvision.transforms.functional import pil_to_tensor

    class Pairs(Dataset):
        names = sorted(path.name for path in Path(originals).iterdir())

        def __len__(self):
            return len(self.names)

        def __getitem__(self, i):
            return tuple(pil_to_tensor(Image.open(Path(folder, self.names[i])).convert("RGB"))
                         for folder in (originals, counterfactuals))

    lpips = LearnedPerceptualImagePatchSimilarity(net_type="alex", normalize=True)
    fid = FrechetInceptionDistance(feature=64)
    with torch.inference_mode():
        for a, b in DataLoader(Pairs(), batch_size=16):
            lpips.update(a / 255, b / 255)
            fid.update(a, real=True)
            fid.update(b, real=False)
    print(json.dumps({"lpips": float(lpips.compute()), "fid": float(fid.compute())}))


def make_state(architecture, weights, images, out):
    """A state dict as torchvision's users save it: a classifier of few classes with the values of a safetensors file.

    Seeded networks tell images apart but mostly call them all the same. So the last layer is moved and scaled until the
    logits over `images` have mean 0 per class and standard deviation 2.
    """
    import torch
    import torchvision
    from PIL import Image
    from safetensors.torch import load_file

    state = load_file(weights)
    last = "fc" if "fc.weight" in state else "classifier.1"
    for name in (f"{last}.weight", f"{last}.bias"):
        state[name] = state[name][:CLASSES].clone()
    net = getattr(torchvision.models, architecture)(weights=None, num_classes=CLASSES).eval()
    missing, unexpected = net.load_state_dict(state, strict=False)
    if unexpected or not all(name.endswith("num_batches_tracked") for name in missing):
        sys.exit(f"peers: {architecture}: missing {missing[:3]}, unexpected {unexpected[:3]}")
    prepare = classifier_input()
    files = sorted(Path(images).iterdir())[:20]
    layer = net.get_submodule(last)
    with torch.no_grad():
        logits = net(torch.stack([prepare(Image.open(file).convert("RGB")) for file in files]))
        layer.bias -= logits.mean(0)
        scale = 2 / (logits - logits.mean(0)).std()
        layer.weight *= scale
        layer.bias *= scale
    torch.save(net.state_dict(), out)


def classifier_input():
    from torchvision import transforms

    return transforms.Compose([
        transforms.Resize(256), transforms.CenterCrop(224), transforms.ToTensor(),
        transforms.Normalize((0.485, 0.456, 0.406), (0.229, 0.224, 0.225)),
    ])


def run_score(originals, counterfactuals, models, classifier, *rest):
    """A whole evaluation as a script: LPIPS, FID, a classifier and oracles; scores.json and pairs.csv.

    Oracles look at the counterfactuals only, the classifier at the originals too.
    """
    *oracles, target, out = rest
    import csv

    import torch
    import torchvision
    from PIL import Image
    from torch.utils.data import DataLoader, Dataset
    from torchmetrics.image.fid import FrechetInceptionDistance
    from torchmetrics.image.lpip import LearnedPerceptualImagePatchSimilarity
    from torchvision.transforms.functional import pil_to_tensor

    prepare = classifier_input()

    class Pairs(Dataset):
        names = sorted(path.name for path in Path(originals).iterdir())

        def __len__(self):
            return len(self.names)

        def __getitem__(self, i):
            images = [Image.open(Path(folder, self.names[i])).convert("RGB") for folder in (originals, counterfactuals)]
            return [pil_to_tensor(image) for image in images] + [prepare(image) for image in images]

    def load(name):
        net = getattr(torchvision.models, name)(weights=None, num_classes=CLASSES)
        net.load_state_dict(torch.load(Path(models, f"{name}.pth"), weights_only=True))
        return net.eval()

    nets = {name: load(name) for name in (classifier, *oracles)}
    lpips = LearnedPerceptualImagePatchSimilarity(net_type="alex", normalize=True)
    fid = FrechetInceptionDistance(feature=64)
    rows = []
    with torch.inference_mode():
        for a, b, x, y in DataLoader(Pairs(), batch_size=16):
            lpips.update(a / 255, b / 255)
            fid.update(a, real=True)
            fid.update(b, real=False)
            before = nets[classifier](x).argmax(1)
            probabilities = nets[classifier](y).softmax(1)
            opinions = [nets[name](y).argmax(1).tolist() for name in oracles]
            for i in range(len(a)):
                rows.append({
                    "name": Pairs.names[len(rows)], "source": int(before[i]), "classifier": int(probabilities[i].argmax()),
                    "target_probability": float(probabilities[i, target]),
                    "source_probability": float(probabilities[i, before[i]]),
                    **{f"oracle/{name}": opinion[i] for name, opinion in zip(oracles, opinions)},
                })
    out = Path(out)
    out.mkdir()
    with open(out / "pairs.csv", "w", newline="") as file:
        writer = csv.DictWriter(file, rows[0])
        writer.writeheader()
        writer.writerows(rows)

    def share(agrees):
        return sum(map(agrees, rows)) / len(rows)

    scores = {
        "lpips": float(lpips.compute()), "fid": float(fid.compute()),
        "target_accuracy": share(lambda row: row["classifier"] == target),
        "original_accuracy": share(lambda row: row["classifier"] == row["source"]),
        **{f"oracle_score/{name}": share(lambda row: row[f"oracle/{name}"] == row["classifier"]) for name in oracles},
    }
    (out / "scores.json").write_text(json.dumps(scores))


def make_small_pairs(photos, folder, count, distinct, side):
    """`count` pairs of small PNG, of which only `distinct` differ; the others are hard links."""
    import os

    from PIL import Image

    make_images(photos, folder, distinct)
    for name in ("originals", "counterfactuals"):
        place = Path(folder, name)
        for i in range(distinct):
            file = place / f"{i:04}.png"
            Image.open(file).resize((side, side), Image.BICUBIC).save(place / f"{i:06}.png")
            file.unlink()
        for i in range(distinct, count):
            os.link(place / f"{i % distinct:06}.png", place / f"{i:06}.png")


def versions(*names):
    from importlib.metadata import PackageNotFoundError, version

    found = []
    for name in names:
        try:
            found.append(f"{name} {version(name)}")
        except PackageNotFoundError:
            continue
    print(", ".join(found))


TASKS = {
    "make-images": make_images,
    "make-checkpoints": make_checkpoints,
    "make-small-pairs": make_small_pairs,
    "make-state": make_state,
    "score": run_score,
    "torchmetrics": run_torchmetrics,
    "versions": versions,
}

if __name__ == "__main__":
    TASKS[sys.argv[1]](*(int(a) if a.isdigit() else a for a in sys.argv[2:]))
