"""`peers tools`: `foil score` beside torchmetrics and pytorch-fid on the same images.

Each run is a cold process, start to finish: import, weights, decode, network, statistics.

  torchmetrics   LearnedPerceptualImagePatchSimilarity("alex") + FrechetInceptionDistance(64), as a user scripts it
  pytorch-fid    `python -m pytorch_fid --dims 64`, as it ships
  foil           the same metrics with the same resize rule on the same folders

The tools find their weights where their own download would have put them (TORCH_HOME): AlexNet's convolutions and the
first layers of the FID Inception are the real ones of weights/; layers that neither LPIPS nor 64 features reach are
random, so that the files have their usual sizes.

"1 core" and "2 cores" pin every process (and its workers) to that many cores. Seconds are medians of alternated runs;
peak memory is that of the largest process of a run.
"""

import json
import shutil
import sys
import tempfile
from pathlib import Path

from .common import LIB, Run, core_sets, find_photos, median, table
from .inside import SEED, SIDE

# Pairs of a run that is all but start-up; FID needs two images.
FEW = 2
LPIPS_TOLERANCE, FID_TOLERANCE = 1e-4, 1e-3


def options(parser):
    parser.add_argument("--pairs", type=int, default=50, help="of `tools` and `score`; 10 with --quick")
    parser.add_argument("--repeats", type=int, default=3, help="rounds of `tools` and `score`; 1 with --quick")


def foil_values(output):
    scores = json.loads(output)["groups"][0]["scores"]
    return {name: scores[name]["value"] for name in ("lpips", "fid") if name in scores}


def contests(python, foil, originals, counterfactuals):
    """(title, peer's command, how to read it, foil's command)"""
    def score(*options):
        return [foil, "score", "--originals", originals, "--counterfactuals", counterfactuals, "--json", "--quiet",
                *options]

    return [
        ("torchmetrics LPIPS + FID-64",
         [python, LIB / "inside.py", "torchmetrics", originals, counterfactuals],
         lambda output: json.loads(output.splitlines()[-1]),
         score("--metrics", "lpips,fid", "--fid-resize", "antialias")),
        ("pytorch-fid, 64 dims",
         [python, "-W", "ignore", "-m", "pytorch_fid", "--device", "cpu", "--dims", "64", originals, counterfactuals],
         lambda output: {"fid": float(output.rsplit("FID:", 1)[1])},
         score("--metrics", "fid", "--fid-resize", "halfpixel")),
    ]


def agreement(title, peer, foil):
    """Rows of the table of values, and whether all agree."""
    rows, agree = [], True
    for name, theirs in peer.items():
        ours = foil[name]
        error = abs(ours - theirs) / abs(theirs)
        tolerance = LPIPS_TOLERANCE if name == "lpips" else FID_TOLERANCE
        agree &= error <= tolerance
        rows.append([title, name, f"{theirs:.8g}", f"{ours:.8g}", f"{error:.1e}", f"{tolerance:.0e}",
                     "yes" if error <= tolerance else "NO"])
    return rows, agree


def run(setting, args):
    """Prints the tables; false if values disagree."""
    pairs, repeats = (10, 1) if args.quick else (args.pairs, args.repeats)
    if pairs <= FEW or repeats < 1:
        sys.exit(f"peers: at least {FEW + 1} pairs and 1 repeat")
    folder = Path(tempfile.mkdtemp(prefix="foil-peers-"))
    try:
        setting.inside("make-images", find_photos(args.photos), folder, pairs)
        setting.inside("make-checkpoints", folder / "torch")
        return compare(setting, folder, pairs, repeats)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def compare(setting, folder, pairs, repeats):
    cores_of = core_sets([1, 2])
    games = contests(setting.python, setting.foil, str(folder / "originals"), str(folder / "counterfactuals"))
    few = contests(setting.python, setting.foil, *few_pairs(folder))
    # Weights come from TORCH_HOME; foil uses what it ships, not what this machine may have.
    environment = {"TORCH_HOME": str(folder / "torch"), "FOIL_HOME": str(folder / "foil-home"), **setting.environment}

    runs = {}
    for repeat in range(repeats):
        for g, game in enumerate(games):
            # The short runs come first: in the first round they also warm the page cache.
            for pair_count, cores, (_, peer_command, _, foil_command) in [
                (FEW, cores_of[0], few[g]), *((pairs, cores, game) for cores in cores_of),
            ]:
                for side, command in (("peer", peer_command), ("foil", foil_command)):
                    runs.setdefault((g, side, pair_count, len(cores)), []).append(Run(command, cores, environment))
        print(f"tools: round {repeat + 1} of {repeats} done", file=sys.stderr)

    print(f"{pairs} pairs of {SIDE}x{SIDE} PNG, seed {SEED}; medians of {repeats} alternated cold runs.\n")
    counts = [len(cores) for cores in cores_of]
    print(times(games, counts, pairs, runs))
    print(f"\nWithout start-up (a run of {FEW} pairs), one core:\n")
    print(without_startup(games, pairs, runs))
    print()
    return print_values(games, counts, pairs, runs)


def few_pairs(folder):
    """The first pairs on their own: what is left of a run is start-up."""
    places = []
    for name in ("originals", "counterfactuals"):
        place = folder / "few" / name
        place.mkdir(parents=True)
        for image in sorted((folder / name).iterdir())[:FEW]:
            shutil.copy(image, place)
        places.append(str(place))
    return places


def times(games, counts, pairs, runs):
    rows = []
    for g, (title, *_) in enumerate(games):
        for cores in counts:
            theirs, ours = runs[g, "peer", pairs, cores], runs[g, "foil", pairs, cores]
            cells = [title, cores]
            for field in ("seconds", "cpu"):
                a, b = median(theirs, field), median(ours, field)
                cells += [f"{a:.2f}", f"{b:.2f}", f"{b / a:.3f}"]
            rows.append(cells + [f"{median(theirs, 'megabytes'):.0f}", f"{median(ours, 'megabytes'):.0f}"])
    return table(["against", "cores", "peer s", "foil s", "foil/peer", "peer CPU s", "foil CPU s", "foil/peer CPU",
                  "peer peak MB", "foil peak MB"], rows)


def without_startup(games, pairs, runs):
    rows = []
    for g, (title, *_) in enumerate(games):
        start = [median(runs[g, side, FEW, 1], "cpu") for side in ("peer", "foil")]
        whole = [median(runs[g, side, pairs, 1], "cpu") for side in ("peer", "foil")]
        a, b = ((w - s) * 1000 / (pairs - FEW) for w, s in zip(whole, start))
        # A difference that drowns in the noise of start-up says nothing.
        ratio = f"{b / a:.2f}" if a > 0 and b > 0 else "-"
        rows.append([title, f"{start[0]:.2f}", f"{start[1]:.2f}", f"{a:.1f}", f"{b:.1f}", ratio])
    return table(["against", "peer start-up CPU s", "foil start-up CPU s", "peer CPU ms per further pair",
                  "foil CPU ms per further pair", "foil/peer"], rows)


def print_values(games, counts, pairs, runs):
    rows, all_agree = [], True
    for g, (title, _, read, _) in enumerate(games):
        # Every run of foil must find the same, whatever the cores.
        outputs = [run.output for cores in counts for run in runs[g, "foil", pairs, cores]]
        values = {json.dumps(foil_values(output)) for output in outputs}
        if len(values) != 1:
            sys.exit(f"peers: foil's values differ between runs: {sorted(values)}")
        peer = read(runs[g, "peer", pairs, counts[0]][0].output)
        lines, agree = agreement(title, peer, json.loads(values.pop()))
        rows += lines
        all_agree &= agree
    print(table(["against", "value", "peer", "foil", "relative difference", "allowed", "agree"], rows))
    return all_agree
