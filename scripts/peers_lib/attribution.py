"""`peers attribution`: explaining an MLP (5 features, 100 hidden units, 1000 training rows) and judging the weights, beside `shap`, `lime` and numpy.

foil makes the data and the model; the Python side reads the same weights. SHAP and LIME are the packages'; SHAPR, MAPLE, GT-Shapley and the other metrics are written in the
style of the benchmark's code: one model call for each background row, scikit-learn's forest and ridges, 20,000 draws for each subset, 100 for each expectation of the other
metrics, 1000 perturbations. Both sides have one core. Python's time is processor time of the calls alone. Of foil there are two times: that of the same work as foil states it
(wall clock, the least of three runs), which the factor is made of, and processor time of the whole process with reading and writing. Each explains the same points, but for
SHAPR (2) and GT-Shapley (10), of which Python takes fewer. Values of SHAP, SHAPR, breakDown, GT-Shapley, faithfulness, monotonicity and infidelity must agree.
"""

import json
import re
import shutil
import tempfile
from pathlib import Path

from .common import LIB, Run, core_sets, table

# Packages of the venv and their modules.
VENV = (["numpy", "scikit-learn", "shap", "lime", "safetensors"], ["numpy", "sklearn", "shap", "lime", "safetensors"])
METHODS = ["shap", "shapr", "lime", "maple", "breakdown"]
METRICS = ["faithfulness", "monotonicity", "gt-shapley", "infidelity", "roar"]
GOALS = {"shap": 20, "lime": 20, "shapr": 100, "maple": 100, "gt-shapley": 100}
# What two runs with draws of their own may differ by; the others have none.
TOLERANCES = {"shap": 1e-6, "shapr": 1e-6, "breakdown": 1e-6, "gt-shapley": 0.01, "faithfulness": 0.03, "monotonicity": 0.03, "infidelity": 0.01}
REPETITIONS = 3
# Points of which Python computes GT-Shapley.
FEW = 10


def options(parser):
    parser.add_argument("--points", type=int, default=100, help="attribution: explained points (default 100)")


def run(setting, args):
    points = 4 if args.quick else args.points
    folder = Path(tempfile.mkdtemp(prefix="foil-peers-"))
    cores = core_sets([1])[0]
    try:
        def foil(*words):
            return Run([setting.foil, "attribution", *map(str, words)], cores, setting.environment)

        def fastest(stated, *words):
            runs = [foil(*words) for _ in range(REPETITIONS)]
            return min(map(stated, runs)), min(r.cpu for r in runs), runs[0]

        data, model = folder / "data", folder / "model.safetensors"
        foil("data", "--rho", 0.5, "--test", points, "--variant", "as-released", "--out", data)
        foil("train", "--data", data, "--model", "mlp", "--out", model)
        explain = ["explain", "--data", data, "--model", model, "--variant", "as-released", "--method"]
        ours, found = {}, {}
        for method in METHODS:
            stated = lambda run: float(re.search(r" in ([0-9.]+) s", run.words).group(1))
            seconds, cpu, _ = fastest(stated, *explain, method, "--out", folder / f"{method}.csv")
            ours[method] = (seconds / points, cpu / points)
        foil(*explain, "shap", "--on", "train", "--out", folder / "train.csv")
        score = ["score", "--data", data, "--model", model, "--variant", "as-released", "--json", "--metrics"]
        for metric in METRICS:
            stated = lambda run: json.loads(run.output)["scores"][metric]["seconds"]
            weights = ["--weights", folder / "shap.csv", "--train-weights", folder / "train.csv"]
            seconds, cpu, last = fastest(stated, *score, metric, *weights)
            ours[metric] = (seconds / points, cpu / points)
            found[metric] = json.loads(last.output)["scores"][metric]["value"]
        few = folder / "few.csv"
        few.write_text("".join((folder / "shap.csv").read_text().splitlines(keepends=True)[: FEW + 1]))
        found["gt-shapley"] = json.loads(foil(*score, "gt-shapley", "--weights", few).output)["scores"]["gt-shapley"]["value"]
        peer = Run([setting.python, LIB / "python_attribution.py", data, model, folder, str(FEW)], cores, {})
        theirs = json.loads(peer.output)
        rows = []
        for name, (seconds, cpu) in ours.items():
            python = theirs["seconds"][name]
            goal = GOALS.get(name)
            mark = "" if goal is None else f"{goal}: {'met' if python / seconds >= goal else 'MISSED'}"
            rows.append([name, f"{python:.2e}", f"{seconds:.2e}", f"{cpu:.2e}", f"{python / seconds:.0f}", mark])
        print(table(["", "Python (s per point)", "foil (s per point)", "foil's process", "times faster", "goal"], rows))
        agree = True
        for name, tolerance in TOLERANCES.items():
            value = theirs["values"].get(name)
            difference = theirs["differences"][name] if value is None else abs(value - found[name])
            print(f"{name}: largest difference {difference:.1e}, allowed {tolerance:.0e}")
            agree &= difference <= tolerance
        return agree
    finally:
        shutil.rmtree(folder, ignore_errors=True)
