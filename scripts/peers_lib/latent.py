"""`peers latent`: the explainers of a latent space beside the released Python package bex 0.5.2, and orthogonal sets beside numpy.

The small world is that of the golden data (perceptrons, 80 samples, 10 explanations of each, batches of 12). The package's
explainers get it without their download; only their calls are timed, as foil times its own (`--variant as-released`). The two take turns, and
the medians of their rounds are shown. Latent-CF and StylEx draw no random numbers: their latents must agree. Sets: 10,000 samples x 10
explanations x 101 dimensions; the selection alone is timed on both sides, and the sets must be the same.
"""

import json
import os
import shutil
import statistics
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
    parser.add_argument("--rounds", type=int, default=3, help="latent: how often each side explains and selects (default 3)")


def world_files():
    """The folder of the golden world: what FOIL_REFERENCE names, or the copy that the tests have."""
    places = [Path(os.environ.get("FOIL_REFERENCE", ROOT.parent / "shared/reference")) / "bex", ROOT / "tests/golden/bex"]
    for place in places:
        if (place / "world_model.safetensors").is_file():
            return place
    sys.exit(f"peers: no world_model.safetensors in {places[0]} or {places[1]}; name the golden data with FOIL_REFERENCE")


def run(setting, args):
    if subprocess.run([setting.python, "-c", "import bex, sklearn"], capture_output=True).returncode != 0:
        subprocess.run([setting.python, "-m", "pip", "install", "--quiet", *PACKAGES], check=True)
    folder = Path(tempfile.mkdtemp(prefix="foil-peers-"))
    worker = LIB / "torch_latent.py"
    rounds = 1 if args.quick else max(1, args.rounds)
    cores = core_sets([1, 2])[-1]
    reference = world_files()

    def asked(command, environment):
        """What a cold process says in JSON, on its last line or in all of its output."""
        output = Run(command, cores, environment).output
        return json.loads(output[output.index("{"):])

    try:
        for name in ("world_model.safetensors", "world_stats.safetensors"):
            shutil.copy(reference / name, folder / name)
        (folder / "world.toml").write_text(WORLD)
        agree, rows = True, []
        for name in ["latent-cf", "stylex"] if args.quick else NAMES:
            out = folder / f"{name}.safetensors"
            foil = [setting.foil, "latent", "explain", "--quiet", "--json", "--device", "cpu", "--world", folder, "--variant", "as-released",
                    "--samples", "10", "--explainer", name, "--out", out]
            ours, theirs = [], []
            for _ in range(rounds):
                ours.append(asked(foil, setting.environment))
                theirs.append(asked([setting.python, worker, "explain", folder, name, out], {}))
            seconds = [statistics.median(run["seconds"] for run in side) for side in (theirs, ours)]
            difference = theirs[0]["difference"]
            if difference is not None:
                agree &= difference < 1e-3
            shown = "random" if difference is None else f"{difference:.1e}"
            package, own = (ours[0]["explanations"] / max(s, 1e-9) for s in seconds)
            rows.append([name, f"{package:.0f}", f"{own:.0f}", f"{own / package:.0f}", shown])
        print(table(["explainer", "package (explanations/s)", "foil (explanations/s)", "times faster", "largest difference"], rows))
        sets = 200 if args.quick else args.sets
        file = folder / "sets.safetensors"
        Run([setting.python, worker, "make-sets", file, str(sets)], cores, {})
        ours, theirs = [], []
        for _ in range(rounds):
            ours.append(asked([setting.foil, "metric", "orthogonal-set", "--json", "--input", file], setting.environment))
            theirs.append(asked([setting.python, worker, "sets", file], {}))
        same = ours[0]["sizes"] == theirs[0]["sizes"]
        agree &= same
        numpy, own = (statistics.median(run["seconds"] for run in side) for side in (theirs, ours))
        print()
        print(table(["samples x 10 x 101", "numpy (s)", "foil (s)", "times faster", "same sizes"],
                    [[str(sets), f"{numpy:.2f}", f"{own:.4f}", f"{numpy / own:.0f}", same]]))
        return agree
    finally:
        shutil.rmtree(folder, ignore_errors=True)
