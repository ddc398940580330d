"""`peers latent`: the explainers of a latent space beside the released Python package bex 0.5.2, and orthogonal sets beside numpy.

The small world is that of the golden data (perceptrons, 80 samples, 10 explanations of each, batches of 12). The package's
explainers get it without their download; only their calls are timed, as foil times its own (`--variant as-released`). Latent-CF and StylEx draw
no random numbers: their latents must agree. Sets: 10,000 samples x 10 explanations x 101 dimensions; the selection alone is timed on both sides, and the
sets must be the same.
"""

import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from .common import LIB, ROOT, Run, core_sets, table

NAMES = ["is", "latent-cf", "stylex", "gs", "xgem", "dive", "dice"]
WORLD = """name = "golden"
[generator]
kind = "perceptron"
file = "world_model.safetensors"
layers = ["generator.l1", "generator.l2"]
embeddings = ["generator.char_embedding.weight", "generator.font_embedding.weight"]
image = [3, 4, 4]
[classifier]
layers = ["classifier.a", "classifier.b", "classifier.c"]
[data]
file = "world_stats.safetensors"
"""
PACKAGES = ["bex==0.5.2", "scikit-learn", "h5py", "pandas", "tqdm", "matplotlib", "requests", "haven-ai"]


def options(parser):
    parser.add_argument("--sets", type=int, default=10_000, help="latent: samples of the orthogonal sets (default 10000)")


def run(setting, args):
    reference = Path(os.environ.get("FOIL_REFERENCE", ROOT.parent / "shared/reference")) / "bex"
    if not (reference / "world_model.safetensors").is_file():
        sys.exit(f"peers: {reference} holds no world_model.safetensors; name the golden data with FOIL_REFERENCE")
    if subprocess.run([setting.python, "-c", "import bex, sklearn"], capture_output=True).returncode != 0:
        subprocess.run([setting.python, "-m", "pip", "install", "--quiet", *PACKAGES], check=True)
    folder = Path(tempfile.mkdtemp(prefix="foil-peers-"))
    worker = LIB / "torch_latent.py"
    try:
        cores = core_sets([2])[0] if len(core_sets([2])) else core_sets([1])[0]
        for name in ("world_model.safetensors", "world_stats.safetensors"):
            shutil.copy(reference / name, folder / name)
        (folder / "world.toml").write_text(WORLD)
        names = ["latent-cf", "stylex"] if args.quick else NAMES
        agree, rows = True, []
        for name in names:
            out = folder / f"{name}.safetensors"
            foil = [setting.foil, "latent", "explain", "--quiet", "--device", "cpu", "--world", folder, "--variant", "as-released",
                    "--samples", "10", "--explainer", name, "--out", out]
            ours = Run(foil, cores, setting.environment)
            theirs = json.loads(Run([setting.python, worker, "explain", folder, name, out], cores, {}).output.splitlines()[-1])
            seconds = float(ours.output.split(" in ")[1].split(" s ")[0])
            count = theirs["count"]
            difference = "random" if theirs["difference"] is None else f"{theirs['difference']:.1e}"
            if theirs["difference"] is not None:
                agree &= theirs["difference"] < 1e-3
            rows.append([name, f"{count / theirs['seconds']:.0f}", f"{count / max(seconds, 1e-3):.0f}",
                         f"{theirs['seconds'] / max(seconds, 1e-3):.0f}", difference])
        print(table(["explainer", "package (explanations/s)", "foil (explanations/s)", "times faster", "largest difference"], rows))
        sets = 200 if args.quick else args.sets
        Run([setting.python, worker, "make-sets", folder / "sets.safetensors", str(sets)], cores, {})
        command = [setting.foil, "metric", "orthogonal-set", "--json", "--input", folder / "sets.safetensors"]
        ours = json.loads(Run(command, cores, setting.environment).output)
        theirs = json.loads(Run([setting.python, worker, "sets", folder / "sets.safetensors"], cores, {}).output)
        same = ours["sizes"] == theirs["sizes"]
        agree &= same
        print()
        print(table(["samples x 10 x 101", "numpy (s)", "foil (s)", "times faster", "same sizes"],
                    [[str(sets), f"{theirs['seconds']:.2f}", f"{ours['seconds']:.4f}", f"{theirs['seconds'] / ours['seconds']:.0f}", same]]))
        return agree
    finally:
        shutil.rmtree(folder, ignore_errors=True)
