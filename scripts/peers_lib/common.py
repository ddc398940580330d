"""What the comparisons share: places, the venv, cold runs, workers, tables."""

import json
import os
import platform
import statistics
import subprocess
import sys
import tempfile
import time
import venv
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
LIB = Path(__file__).resolve().parent
PACKAGES = ["torch", "torchvision", "torchmetrics", "torch-fidelity", "pytorch-fid", "efficientnet-lite-pytorch",
            "safetensors", "pillow", "numpy", "scipy"]
MODULES = ["torchmetrics", "torch_fidelity", "pytorch_fid", "efficientnet_lite_pytorch", "torchvision", "safetensors",
           "scipy"]
# Whose versions stand in the heading, of those that are there.
NAMED = ["torch", "torchvision", "torchmetrics", "torch-fidelity", "pytorch-fid"]


class Setting:
    """Where the two sides are, and what the user asked of them. `subjects`: what is compared; one that needs no PyTorch says in `VENV` what it
    needs (packages, modules)."""

    def __init__(self, args, subjects=()):
        self.quick = args.quick
        self.photos = args.photos
        if not args.foil.exists():
            subprocess.run(["cargo", "build", "--release"], cwd=ROOT, check=True)
        self.foil = str(args.foil.resolve())
        own = [getattr(subject, "VENV", (PACKAGES, MODULES)) for subject in subjects] or [(PACKAGES, MODULES)]
        packages, modules = ([name for lists in own for name in lists[k]] for k in range(2))
        self.named = [*NAMED, *(name for name in packages if name not in PACKAGES)]
        self.python = make_venv(args.venv or ROOT / "target/peers-venv", packages, modules)
        self.environment = {}
        if args.foil_cpu:
            self.environment["FOIL_CPU"] = args.foil_cpu
        if args.fast:
            self.environment["FOIL_CPU"] = "amx"

    def variables(self, more):
        """The environment of a process."""
        return {**os.environ, **self.environment, **more}

    def inside(self, *task):
        """A task of inside.py; what it printed."""
        command = [self.python, LIB / "inside.py", *map(str, task)]
        return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout.strip()

    def heading(self):
        version = subprocess.run([self.foil, "--version"], check=True, capture_output=True, text=True).stdout.strip()
        options = "".join(f" {name}={value}" for name, value in self.environment.items())
        load = " ".join(f"{value:.1f}" for value in os.getloadavg())
        return (f"{time.strftime('%Y-%m-%d')}; {machine()}, load {load}; {version}{options}; {self.inside('versions', *self.named)}; "
                f"Python {platform.python_version()}.")


class Run:
    """One cold process: what it printed (on both streams), how long it took, how much memory its largest process had."""

    def __init__(self, command, cores, environment):
        environment = {**os.environ, **environment, **thread_variables(len(cores))}
        with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
            start = time.perf_counter()
            child = subprocess.Popen(command, stdout=out, stderr=err, stdin=subprocess.DEVNULL, env=environment,
                                     preexec_fn=lambda: os.sched_setaffinity(0, cores))
            _, status, usage = os.wait4(child.pid, 0)
            self.seconds = time.perf_counter() - start
            child.returncode = os.waitstatus_to_exitcode(status)
            for stream in (out, err):
                stream.seek(0)
            self.output, self.words = out.read().decode(), err.read().decode()
            if child.returncode != 0:
                sys.exit(f"peers: {' '.join(map(str, command))}\n{self.words}\nexit code {child.returncode}")
        self.cpu = usage.ru_utime + usage.ru_stime
        self.megabytes = usage.ru_maxrss / 1024


class Worker:
    """A process that answers each line with one line of JSON."""

    def __init__(self, command, cores, environment=()):
        environment = {**os.environ, **dict(environment), **thread_variables(len(cores))}
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
                                        env=environment, preexec_fn=lambda: os.sched_setaffinity(0, cores))

    def try_ask(self, *words):
        self.process.stdin.write(" ".join(map(str, words)) + "\n")
        self.process.stdin.flush()
        line = self.process.stdout.readline()
        if not line:
            sys.exit(f"peers: {self.process.args[0]} ended at `{' '.join(map(str, words))}`")
        return json.loads(line)

    def ask(self, *words):
        answer = self.try_ask(*words)
        if "error" in answer:
            sys.exit(f"peers: {answer['error']}")
        return answer

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.stdin.close()
        self.process.wait()


def thread_variables(threads):
    names = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "RAYON_NUM_THREADS")
    # candle would start threads of its own, which spin.
    return {**{name: str(threads) for name in names}, "CANDLE_NUM_THREADS": "1"}


def core_sets(counts):
    """The first n of our cores, for each n there is."""
    cores = sorted(os.sched_getaffinity(0))
    return [set(cores[:n]) for n in counts if n <= len(cores)]


def table(head, rows):
    """A table in Markdown."""
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(map(str, line)) + " |" for line in lines)


def median(runs, field):
    return statistics.median(getattr(run, field) for run in runs)


def machine():
    model = platform.machine()
    try:
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                model = line.split(":", 1)[1].strip()
                break
    except OSError:
        pass
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    return f"{model}, {len(os.sched_getaffinity(0))} cores, {memory:.0f} GB"


def find_photos(given):
    reference = Path(os.environ.get("FOIL_REFERENCE", ROOT.parent / "shared/reference"))
    places = [Path(given)] if given else [ROOT / "tests/golden/weights/photos", reference / "weights/photos"]
    for place in places:
        if any(place.glob("*.png")):
            return place
    sys.exit(f"peers: no photographs (*.png) in {' or '.join(map(str, places))}; name a folder with --photos")


def make_venv(folder, packages=PACKAGES, modules=MODULES):
    python = folder / "bin" / "python"
    if not python.exists():
        print(f"making {folder} …", file=sys.stderr)
        venv.create(folder, with_pip=True)
    if subprocess.run([python, "-c", f"import {', '.join(modules)}"], capture_output=True).returncode != 0:
        subprocess.run([python, "-m", "pip", "install", "--quiet", *packages], check=True)
    return str(python)
