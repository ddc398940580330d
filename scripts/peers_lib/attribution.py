"""`peers attribution`: explaining an MLP (5 features, 100 hidden units, 1000 training rows) and judging the weights, beside `shap`, `lime` and numpy.

foil makes the data and the model; the Python side reads the same weights. SHAP and LIME are the packages'; SHAPR, MAPLE and GT-Shapley are written in the style of the
benchmark's code: one model call for each background row, scikit-learn's forest and ridges, 20,000 draws for each subset. Python's time is processor time of the calls alone; foil's
is that of the whole process with reading and writing. Values of SHAP, SHAPR and GT-Shapley must agree.
"""

import json
import shutil
import tempfile
from pathlib import Path

import subprocess

from .common import LIB, Run, core_sets, table

METHODS = ["shap", "shapr", "lime", "maple"]


def options(parser):
    parser.add_argument("--points", type=int, default=100, help="attribution: explained points (default 100)")


def run(setting, args):
    points = 4 if args.quick else args.points
    folder = Path(tempfile.mkdtemp(prefix="foil-peers-"))
    cores = core_sets([1])[0]
    try:
        subprocess.run([setting.python, "-m", "pip", "install", "--quiet", "shap", "lime", "scikit-learn"], check=True)

        def foil(*words):
            return Run([setting.foil, "attribution", *map(str, words)], cores, setting.environment)

        data, model = folder / "data", folder / "model.safetensors"
        foil("data", "--rho", 0.5, "--test", points, "--out", data)
        foil("train", "--data", data, "--model", "mlp", "--out", model)
        ours = {}
        for method in METHODS:
            out = folder / f"{method}.csv"
            words = ["explain", "--data", data, "--model", model, "--method", method, "--out", out]
            ours[method] = foil(*words, "--variant", "as-released").cpu / points
        judged = foil("score", "--data", data, "--model", model, "--weights", folder / "shap.csv", "--metrics", "gt-shapley", "--json")
        ours["gt-shapley"] = judged.cpu / points
        found = json.loads(judged.output)["scores"]["gt-shapley"]["value"]
        few = min(points, 10)
        peer = Run([setting.python, LIB / "python_attribution.py", data, model, str(few), folder], cores, {})
        theirs = json.loads(peer.output)
        agree, rows = True, []
        for name, seconds in ours.items():
            rows.append([name, f"{theirs['seconds'][name]:.2e}", f"{seconds:.2e}", f"{theirs['seconds'][name] / seconds:.0f}"])
        print(table(["", "Python (s per point)", "foil (s per point)", "times faster"], rows))
        # Correlations with draws of their own differ by what 20,000 draws leave.
        differences = {**theirs["differences"], "gt-shapley": abs(theirs["gt_shapley"] - found) if few == points else None}
        for name, tolerance in {"shap": 1e-6, "shapr": 1e-6, "gt-shapley": 0.01}.items():
            if differences[name] is not None:
                print(f"{name}: largest difference {differences[name]:.1e}, allowed {tolerance:.0e}")
                agree &= differences[name] <= tolerance
        return agree
    finally:
        shutil.rmtree(folder, ignore_errors=True)
