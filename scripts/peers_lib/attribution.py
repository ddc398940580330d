"""`peers attribution`: explaining an MLP (5 features, 100 hidden units, 1000 training rows) and judging the weights, beside `shap`, `lime` and numpy.

foil makes the data and the model; the Python side reads the same weights. SHAP and LIME are the packages'. The benchmark's own code cannot be installed with today's Python;
SHAPR, MAPLE, GT-Shapley and the other metrics do its work as it does: one model call for each background row, scikit-learn's forest and ridges, 20,000 draws for each subset,
100 for each expectation of the other metrics, 1000 perturbations. The model is scikit-learn's MLPRegressor, as there, and once more the same network in four numpy calls, which
is the least that Python can do. Both sides have one core. Python's time is processor time of the calls alone. Of foil there are two times: that of the same work as foil states it
(wall clock, the least of three runs), which the factor is made of, and processor time of the whole process with reading and writing. Each explains the same points, but for
SHAPR (2) and GT-Shapley (10), of which Python takes fewer. Values of SHAP, SHAPR, breakDown, GT-Shapley, faithfulness, monotonicity and infidelity must agree.
"""

import json
import math
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
# What weights may differ by at most, of lime and maple, which draw, one minus their mean correlation; and what values of metrics may, which draw too.
TOLERANCES = {"shap": 1e-6, "shapr": 1e-6, "breakdown": 1e-6, "lime": 0.1, "maple": 0.1, "gt-shapley": 0.01, "faithfulness": 0.03, "monotonicity": 0.03, "infidelity": 0.01}
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
            stated = lambda run: float(re.search(r"\(([0-9.e+-]+) s each\)", run.words).group(1))
            seconds, cpu, _ = fastest(stated, *explain, method, "--out", folder / f"{method}.csv")
            ours[method] = (seconds, cpu / points)
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

        def python(model_is):
            task = [setting.python, LIB / "python_attribution.py", data, model, folder, str(FEW), model_is]
            return json.loads(Run(task, cores, {}).output)

        theirs, lean = python("sklearn"), python("numpy")["seconds"]
        rows = []
        for name, (seconds, cpu) in ours.items():
            own = theirs["seconds"][name]
            goal = GOALS.get(name)
            mark = "" if goal is None else f"{goal}: {'met' if own / seconds >= goal else 'MISSED'}"
            times = [f"{value:.2e}" for value in (own, lean[name], seconds, cpu)]
            rows.append([name, *times, f"{own / seconds:.0f}", f"{lean[name] / seconds:.0f}", mark])
        head = ["", "Python", "Python, numpy model", "foil", "foil's process", "times faster", "than numpy model", "goal"]
        print("Seconds for each point:\n")
        print(table(head, rows))
        agree = True
        for name, tolerance in TOLERANCES.items():
            if name in found:
                # Of metrics that draw, fewer points say less.
                tolerance *= max(1, math.sqrt(100 / points))
            value = theirs["values"].get(name)
            difference = theirs["differences"][name] if value is None else abs(value - found[name])
            print(f"{name}: largest difference {difference:.1e}, allowed {tolerance:.0e}")
            agree &= difference <= tolerance
        return agree
    finally:
        shutil.rmtree(folder, ignore_errors=True)
