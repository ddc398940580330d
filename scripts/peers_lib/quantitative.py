"""`peers quantitative`: EN, TCV, IM1, IM2, oracle, LVS and FID of MNIST-like pairs, beside an evaluation in the published style.

Random images of 28x28 pixels and random networks (auto-encoders of ten classes and of all, the CNN as oracle and as label model), so
that no data are needed. The script asks the networks as the published evaluation does: one image at a time, each metric for
itself (IM1: two calls, IM2: two, oracle: one, LVS: two), FID in batches of 256. It runs in PyTorch over all pairs and, with
`--keras N`, in Keras as the published program does (`Model.predict`, tens of milliseconds a call), over N of them. All are cold processes
on one core that read the same files. Values must agree.
"""

import json
import shutil
import tempfile
from pathlib import Path

from .common import LIB, ROOT, Run, core_sets, make_venv, median, table

TOLERANCES = {"elastic_net": 1e-9, "target_class_validity": 1e-12, "im1": 1e-5, "im2": 1e-5, "oracle_score/oracle": 1e-3,
              "label_variation/digit": 1e-4, "fid": 1e-3}
CARD = """name = "oracle"
architecture = "mnist_cnn"
file = "oracle.safetensors"
[preprocessing]
resize = "none"
crop = "none"
channels = "grey"
mean = [0.5, 0.5, 0.5]
std = [1.0, 1.0, 1.0]
"""


def options(parser):
    parser.add_argument("--samples", type=int, default=10_000, help="quantitative: pairs (default 10000)")
    parser.add_argument("--keras", type=int, metavar="N", help="quantitative: N pairs beside Keras too, which is what the published "
                        "program uses (downloads TensorFlow into target/keras-venv)")


def run(setting, args):
    samples, repeats = (200, 1) if args.quick else (args.samples, args.repeats)
    agree = compare(setting, "PyTorch", [setting.python], samples, repeats)
    if args.keras:
        # One thread, as the cores are; TensorFlow's words are not for the reader.
        python = make_venv(ROOT / "target/keras-venv", ["tensorflow-cpu", "safetensors"], ["tensorflow", "safetensors"])
        agree &= compare(setting, "Keras", ["env", "TF_CPP_MIN_LOG_LEVEL=3", python], args.keras, 1)
    return agree


def compare(setting, framework, python, samples, repeats):
    """One table of values and one of times; false if values differ."""
    folder = Path(tempfile.mkdtemp(prefix="foil-peers-"))
    worker = LIB / "published_quantitative.py"
    try:
        cores = core_sets([1])[0]
        Run([setting.python, worker, "make", folder, str(samples)], cores, {})
        (folder / "oracle.toml").write_text(CARD)
        foil = [setting.foil, "score", "--quiet", "--json", "--device", "cpu", "--protocol", "published", "--range", "-0.5,0.5",
                "--metrics", "en,tcv,im1,im2,oracle,lvs,fid:embedding", "--originals", folder / "real.npy",
                "--counterfactuals", folder / "cf.npz", "--autoencoders", folder / "ae.safetensors", "--oracle", folder / "oracle.toml",
                "--label-model", f"digit={folder / 'oracle.toml'}"]
        peer = [*python, worker, "score", folder, "torch" if framework == "PyTorch" else "keras"]
        runs = {"foil": [], "script": []}
        for _ in range(repeats):
            ours = Run(foil, cores, setting.environment)
            theirs = Run(peer, cores, {})
            runs["foil"].append(ours)
            runs["script"].append(theirs)
        found = {name: score["value"] for name, score in json.loads(ours.output)["groups"][0]["scores"].items()}
        expected = json.loads(theirs.output)
        agree, rows = True, []
        for name, tolerance in TOLERANCES.items():
            error = abs(found[name] - expected[name]) / max(abs(expected[name]), 1e-300)
            agree &= error <= tolerance
            rows.append([name, f"{expected[name]:.8g}", f"{found[name]:.8g}", f"{error:.1e}", f"{tolerance:.0e}"])
        print(f"\n{framework}:\n")
        print(table(["score", "script", "foil", "relative difference", "allowed"], rows))
        rows = []
        for name, field in (("elapsed", "seconds"), ("CPU", "cpu")):
            ours, theirs = (median(runs[side], field) for side in ("foil", "script"))
            rows.append([str(samples), name, f"{theirs:.2f}", f"{ours:.2f}", f"{theirs / ours:.1f}"])
        print()
        print(table(["samples", "time", "script (s)", "foil (s)", "times faster"], rows))
        return agree
    finally:
        shutil.rmtree(folder, ignore_errors=True)
