"""`peers score`: a whole evaluation beside the same as a Python script, from cold start to written files.

50 pairs of photographs; LPIPS (AlexNet), FID with 64 features, a classifier and two oracles; results as JSON and CSV.
Once with small networks, where images and start-up count, and once with a ResNet-50, where its arithmetic is most of
the work on both sides. The script uses torchmetrics, torchvision and a DataLoader; foil reads the same state dicts
through model cards. The classifiers have 10 classes; their weights are seeded, and their last layer such that the
images get different classes.

Values must agree: LPIPS, FID, every share, every predicted class, and the classifier's probabilities. A network that
calls all images the same would agree with anything: that counts as disagreement.
"""

import csv
import json
import shutil
import sys
import tempfile
from pathlib import Path

from .common import LIB, Run, Worker, core_sets, find_photos, median, table
from .inside import SEED, SIDE
from .nets import bench
from .tools import FID_TOLERANCE, LPIPS_TOLERANCE

# Classifier and oracles.
COMMITTEES = [("mobilenet_v2", ["resnet18", "squeezenet1_1"]), ("resnet50", ["resnet18", "mobilenet_v2"])]
TARGET = 0
MOST_TIME, MOST_MEMORY = 0.25, 0.3
PROBABILITY_TOLERANCE = 1e-4


def options(_):
    """Takes those of `tools` and `nets`."""


def run(setting, args):
    pairs, repeats = (10, 1) if args.quick else (args.pairs, args.repeats)
    folder = Path(tempfile.mkdtemp(prefix="foil-peers-"))
    try:
        setting.inside("make-images", find_photos(args.photos), folder, pairs)
        setting.inside("make-checkpoints", folder / "torch")
        make_models(setting, folder, args.worker or bench("worker"))
        # All are run, also if one disagrees.
        return all([compare(setting, folder, pairs, repeats, *committee) for committee in COMMITTEES])
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def make_models(setting, folder, worker):
    models = folder / "models"
    models.mkdir()
    with Worker([worker], core_sets([1])[0]) as foil:
        for name in sorted({name for classifier, oracles in COMMITTEES for name in (classifier, *oracles)}):
            foil.ask("export", name, folder / "weights.safetensors")
            setting.inside("make-state", name, folder / "weights.safetensors", folder / "originals", models / f"{name}.pth")
            Path(models, f"{name}.toml").write_text(
                f'name = "{name}"\narchitecture = "{name}"\nfile = "{name}.pth"\n')


def compare(setting, folder, pairs, repeats, classifier, committee):
    environment = {"TORCH_HOME": str(folder / "torch"), "FOIL_HOME": str(folder / "foil-home"), **setting.environment}
    places = [str(folder / "originals"), str(folder / "counterfactuals")]
    models = folder / "models"
    oracles = [word for name in committee for word in ("--oracle", models / f"{name}.toml")]
    commands = {
        "peer": [setting.python, LIB / "inside.py", "score", *places, models, classifier, *committee, str(TARGET)],
        "foil": [setting.foil, "score", "--originals", places[0], "--counterfactuals", places[1], "--classifier",
                 models / f"{classifier}.toml", *oracles, "--target", str(TARGET), "--metrics", "validity,lpips,fid",
                 "--fid-resize", "antialias", "--quiet", "--out"],
    }
    runs, cores_of = {}, core_sets([1, 2])
    for repeat in range(repeats):
        for cores in cores_of:
            for side, command in commands.items():
                out = folder / side
                shutil.rmtree(out, ignore_errors=True)
                runs.setdefault((side, len(cores)), []).append(Run([*command, str(out)], cores, environment))
        print(f"score: round {repeat + 1} of {repeats} done", file=sys.stderr)

    print(f"\n{classifier} with the oracles {' and '.join(committee)}: {pairs} pairs of {SIDE}x{SIDE} PNG, seed {SEED}; "
          f"medians of {repeats} alternated cold runs; **bold** misses its target.\n")
    rows = []
    for cores in map(len, cores_of):
        theirs, ours = runs["peer", cores], runs["foil", cores]
        row = [cores]
        for field, digits, most in [("seconds", 2, MOST_TIME), ("cpu", 2, None), ("megabytes", 0, MOST_MEMORY)]:
            a, b = median(theirs, field), median(ours, field)
            ratio = f"{b / a:.3f}" if most is None or b / a <= most else f"**{b / a:.3f}**"
            row += [f"{a:.{digits}f}", f"{b:.{digits}f}", ratio]
        rows.append(row)
    print(table(["cores", "script s", "foil s", f"ratio (≤ {MOST_TIME})", "script CPU s", "foil CPU s", "ratio",
                 "script peak MB", "foil peak MB", f"ratio (≤ {MOST_MEMORY})"], rows))
    print()
    rows, agree = values(folder / "peer", folder / "foil", committee)
    print(table(["value", "script", "foil", "difference", "allowed", "agree"], rows))
    return agree


def values(peer, foil, committee):
    """Rows of the table of values, and whether all agree."""
    rows, all_agree = [], True

    def add(name, theirs, ours, difference, allowed):
        nonlocal all_agree
        all_agree &= difference <= allowed
        rows.append([name, theirs, ours, f"{difference:.1e}" if difference else "0", f"{allowed:.0e}" if allowed else "0",
                     "yes" if difference <= allowed else "NO"])

    theirs = json.loads((peer / "scores.json").read_text())
    ours = json.loads((foil / "scores.json").read_text())["groups"][0]["scores"]
    for name, a in theirs.items():
        b = ours[name]["value"]
        allowed = {"lpips": LPIPS_TOLERANCE, "fid": FID_TOLERANCE}.get(name, 1e-9)
        add(name, f"{a:.8g}", f"{b:.8g}", abs(a - b) / (abs(a) or 1), allowed)

    theirs, ours = (list(csv.DictReader(open(place / "pairs.csv"))) for place in (peer, foil))
    for column in ["source", "classifier", *(f"oracle/{name}" for name in committee)]:
        other = sum(a[column] != b[column] for a, b in zip(theirs, ours, strict=True))
        kinds = [len({row[column] for row in side}) for side in (theirs, ours)]
        add(f"predicted: {column}", *(f"{kind} classes" for kind in kinds), other, 0 if min(kinds) > 1 else -1)
    flips = [sum(row["classifier"] != row["source"] for row in side) for side in (theirs, ours)]
    add("classifier changed its mind", *flips, abs(flips[0] - flips[1]), 0 if flips[0] else -1)
    for column in ["target_probability", "source_probability"]:
        pairs = [(float(a[column]), float(b[column])) for a, b in zip(theirs, ours, strict=True)]
        means = [f"mean {sum(side) / len(pairs):.6g}" for side in zip(*pairs)]
        add(column, *means, max(abs(a - b) / max(a, b) for a, b in pairs), PROBABILITY_TOLERANCE)
    return rows, all_agree
