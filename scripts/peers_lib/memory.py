"""`peers memory`: memory of `foil score` while it works through many pairs; it should not grow.

Small images (64x64, hard links to a few hundred files), Lp, LPIPS and FID with 64 features. The journal tells how far
the run is; memory is sampled on the way (the largest of each twentieth of the run), and its peak is the kernel's count.
"""

import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from .common import core_sets, find_photos, table, thread_variables

DISTINCT, SIDE = 200, 64
STEP, SHOWN = 0.05, [0.1, 0.25, 0.5, 0.75, 1.0]
MOST_GROWTH = 0.1


def options(parser):
    parser.add_argument("--memory-pairs", type=int, default=10_000, help="of `memory`; 600 with --quick")


def run(setting, args):
    pairs = 600 if args.quick else args.memory_pairs
    folder = Path(tempfile.mkdtemp(prefix="foil-peers-"))
    try:
        setting.inside("make-small-pairs", find_photos(args.photos), folder, pairs, min(DISTINCT, pairs), SIDE)
        sampled, peak, seconds = watch(setting, folder, pairs)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    base = sampled[SHOWN[0]]
    print(f"{pairs} pairs of {SIDE}x{SIDE} PNG, {seconds:.0f} s; resident MB of the process; **bold** is more than "
          f"{MOST_GROWTH:.0%} above the first.\n")
    cells = [sampled[fraction] for fraction in SHOWN] + [peak]
    # The statistics at the end of a run take memory of their own: the last two are shown, not judged.
    flat = [mb / base - 1 <= MOST_GROWTH for mb in cells[:-2]]
    shown = [f"{mb:.0f}" if mb / base - 1 <= MOST_GROWTH else f"**{mb:.0f}**" for mb in cells]
    print(table([f"at {fraction:.0%}" for fraction in SHOWN] + ["peak"], [shown]))
    # A short run is still warming up.
    return args.quick or all(flat)


def watch(setting, folder, pairs):
    """Resident MB at each step, the peak, and seconds."""
    out = folder / "out"
    cores = core_sets([2, 1])[0]
    command = [setting.foil, "score", "--originals", folder / "originals", "--counterfactuals",
               folder / "counterfactuals", "--metrics", "lp,lpips,fid", "--quiet", "--out", out]
    environment = {**os.environ, **setting.environment, **thread_variables(len(cores)),
                   "FOIL_HOME": str(folder / "foil-home")}
    start = time.perf_counter()
    child = subprocess.Popen(command, stdout=subprocess.DEVNULL, env=environment,
                             preexec_fn=lambda: os.sched_setaffinity(0, cores))
    records, done, sampled = None, 0, {}
    while True:
        finished, status, usage = os.wait4(child.pid, os.WNOHANG)
        if finished:
            break
        if records is None and (out / "journal/records.jsonl").exists():
            records = open(out / "journal/records.jsonl", "rb")
        if records:
            done += sum(line.startswith(b'{"pair"') for line in records)
        fraction = min(done / pairs, 1.0)
        megabytes = resident(child.pid)
        if megabytes:
            # Within a batch memory comes and goes: the largest sample of a step stands for it. The statistics at the
            # end of a run belong to its last step.
            step = round(min(fraction // STEP * STEP + STEP, 1.0), 2)
            sampled[step] = max(sampled.get(step, 0), megabytes)
        time.sleep(0.05)
    child.returncode = os.waitstatus_to_exitcode(status)
    if child.returncode != 0:
        sys.exit(f"peers: foil score ended with exit code {child.returncode}")
    for fraction in SHOWN:
        # A fast run may jump over a step.
        if fraction not in sampled:
            sampled[fraction] = sampled[min(sampled, key=lambda other: abs(other - fraction))]
    return sampled, usage.ru_maxrss / 1024, time.perf_counter() - start


def resident(pid):
    try:
        for line in Path(f"/proc/{pid}/status").read_text().splitlines():
            if line.startswith("VmRSS:"):
                return int(line.split()[1]) / 1024
    except OSError:
        pass
    return None
