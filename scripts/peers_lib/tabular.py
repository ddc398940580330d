"""`peers tabular`: one counterfactual for each row by DiCE (and foil's other methods), beside the package `dice-ml`.

Two tables: Balance Scale (categories; foil makes it from its rules) and wine (numbers; from scikit-learn). foil trains the network; dice-ml asks the same weights, through numpy
(its model-agnostic searches: random, genetic, kd-tree) and, where torch is installed, through torch (its gradient search). Both sides explain the same rows on one core.
Python's time is processor time of the calls alone, foil's is what it states itself (wall clock of the searches). The same network judges both: the share of rows that get a
counterfactual of the other class, and how many features it changes. foil must not cover fewer rows than the best of dice-ml.
"""

import json
import re
import shutil
import subprocess
import tempfile
from pathlib import Path

from .common import LIB, Run, core_sets, table

METHODS = ["dice", "cadex", "growing-spheres", "sedc", "ml-explain", "mace", "synas", "cfproto", "cfproto-nograd", "lore"]
SETS = ["balance", "wine"]


def options(parser):
    parser.add_argument("--rows", type=int, default=10, help="tabular: explained rows of each class (default 10)")


def run(setting, args):
    rows = 2 if args.quick else args.rows
    folder = Path(tempfile.mkdtemp(prefix="foil-peers-"))
    cores = core_sets([1])[0]
    try:
        if subprocess.run([setting.python, "-c", "import dice_ml, sklearn"], capture_output=True).returncode != 0:
            subprocess.run([setting.python, "-m", "pip", "install", "--quiet", "dice-ml", "scikit-learn"], check=True)

        def foil(*words):
            return Run([setting.foil, "tabular", *map(str, words)], cores, setting.environment)

        def python(*words):
            return Run([setting.python, LIB / "python_tabular.py", *map(str, words)], cores, {}).output

        agree = True
        for name in SETS:
            data, model = folder / f"{name}.csv", folder / f"{name}.safetensors"
            schema, factuals = folder / f"{name}.json", folder / f"{name}.factuals.csv"
            if name == "balance":
                foil("datasets", "--generate", "BalanceScale", "--out", data)
            else:
                python("wine", data)
            schema.write_text(foil("train", "--data", data, "--print-schema").output)
            foil("train", "--data", data, "--schema", schema, "--out", model, "--quiet")
            common = [data, schema, model, factuals]
            chosen = int(python("choose", *common, rows))
            lines, covered = [], {}
            for method in METHODS:
                out = folder / f"{name}.{method}.csv"
                words = foil("explain", "--data", data, "--schema", schema, "--model", model, "--method", method,
                             "--factuals", factuals, "--budget", "10s", "--out", out, "--quiet").output
                seconds = float(re.search(r"([0-9.e-]+) s a row", words).group(1))
                judged = json.loads(python("judge", *common, out))
                covered[method] = judged["covered"]
                lines.append([f"foil {method}", f"{seconds:.2e}", f"{judged['covered']:.2f}", f"{judged['changed']:.2f}"])
            theirs = json.loads(python("explain", *common))
            for method, found in theirs.items():
                lines.append([f"dice-ml {method}", f"{found['seconds']:.2e}", f"{found['covered']:.2f}", f"{found['changed']:.2f}"])
            print(f"{name}: {chosen} rows\n")
            print(table(["", "seconds a row", "covered", "features changed"], lines))
            best = max(found["covered"] for found in theirs.values())
            print(f"\nfoil dice covers {covered['dice']:.2f} of the rows, the best of dice-ml {best:.2f}\n")
            agree &= covered["dice"] >= best
        return agree
    finally:
        shutil.rmtree(folder, ignore_errors=True)
