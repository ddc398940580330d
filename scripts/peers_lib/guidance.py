"""`peers guidance`: one guided diffusion step beside PyTorch.

A step is a UNet and a noise-aware classifier, forth and back to the image. Both sides have networks of the same widths
with seeded weights; PyTorch takes the better of NCHW and channels-last. The two take turns, each turn a fresh process
on pinned cores; a number is the median over the turns of each turn's best step.
"""

import json
import statistics
import subprocess

from .common import LIB, core_sets, table, thread_variables
from .nets import bench

MOST = 1.5


def options(_):
    pass


def run(setting, args):
    engine = bench("guidance")
    turns, seconds = (1, 0.5) if args.quick else (args.alternations, 3.0)
    rows = []
    for cores in core_sets(args.threads):
        pin = ["taskset", "-c", ",".join(map(str, sorted(cores)))]
        taken = {}
        for _ in range(turns):
            for side, command in (
                ("foil", [engine, "--times", str(seconds)]),
                ("torch", [setting.python, LIB / "torch_guidance.py", str(len(cores)), str(seconds)]),
            ):
                done = subprocess.run([*pin, *map(str, command)], check=True, stdout=subprocess.PIPE, text=True,
                                      env=setting.variables(thread_variables(len(cores))))
                for line in map(json.loads, done.stdout.splitlines()):
                    taken.setdefault((line["size"], side), []).append(line["ms"])
        for size in dict.fromkeys(size for size, _ in taken):
            foil, torch = (statistics.median(taken[size, side]) for side in ("foil", "torch"))
            ratio = f"{foil / torch:.2f}" if foil / torch <= MOST else f"**{foil / torch:.2f}**"
            rows.append([size, len(cores), f"{torch:.1f}", f"{foil:.1f}", ratio, MOST])
    print(f"Milliseconds of a step, medians of the best of {turns} turns; **bold** misses its target.\n")
    print(table(["images and channels", "threads", "torch ms", "foil ms", "foil/torch", "≤"], rows))
    return True
