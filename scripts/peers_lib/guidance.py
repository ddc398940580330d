"""`peers guidance`: one guided diffusion step beside PyTorch, and the memory of the way back.

A step is a UNet and a noise-aware classifier, forth and back to the image. Both sides have networks of the same widths
with seeded weights; PyTorch takes the better of NCHW and channels-last. The two take turns, each turn a fresh process
on pinned cores; a number is the median over the turns of each turn's best step.

Memory is foil's alone: the resident peak of one pass through the UNet forth and back, less what the process holds before
it (the weights, also those packed for the way back), with and without gradient checkpointing, each in a fresh process.
"""

import json
import statistics
import subprocess

from .common import LIB, core_sets, table, thread_variables
from .nets import bench

MOST = 1.5
MEMORY = [("32x32_c32", 32), ("64x64_c64", 64), ("64x64_c128", 64), ("64x64_c128", 128)]


def options(parser):
    parser.add_argument("--full-size", metavar="SHAPES", help="of `guidance`: full_size_shapes.json of the golden data, to "
                        "measure the memory of the published 256x256 network with checkpointing too (10 GB, minutes)")


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
    return memory(setting, engine, args)


def memory(setting, engine, args):
    """Peaks with and without checkpointing; false if the gradients differ."""
    cores = core_sets(args.threads)[0]
    environment = setting.variables(thread_variables(len(cores)))

    def measure(network, side, switch):
        command = ["taskset", "-c", ",".join(map(str, sorted(cores))), engine, "--memory", network, str(side), switch]
        done = subprocess.run([*map(str, command)], check=True, stdout=subprocess.PIPE, text=True, env=environment)
        return json.loads(done.stdout)

    rows, agree = [], True
    for network, side in MEMORY[:1] if args.quick else MEMORY:
        off, on = measure(network, side, "off"), measure(network, side, "on")
        agree &= off["gradient"] == on["gradient"]
        peaks = [m["peak_mb"] - m["held_mb"] for m in (off, on)]
        rows.append([network, f"{side}x{side}", *(f"{p:.0f}" for p in peaks), f"{peaks[1] / peaks[0]:.2f}",
                     f"{off['ms']:.0f}", f"{on['ms']:.0f}"])
    if args.full_size:
        on = measure(args.full_size, 256, "on")
        rows.append(["published", "256x256", "-", f"{on['peak_mb'] - on['held_mb']:.0f}", "-", "-", f"{on['ms']:.0f}"])
        print(f"\nThe published network holds {on['held_mb']:.0f} MB of weights.")
    print(f"\nMB of one pass forth and back beyond the weights, {len(cores)} threads.\n")
    print(table(["network", "image", "without", "with checkpointing", "ratio", "ms without", "ms with"], rows))
    return agree
