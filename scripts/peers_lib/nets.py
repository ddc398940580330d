"""`peers nets`: the CPU engine beside PyTorch, network by network, with the same weights.

  a      the package's own module as users run it: eval mode, NCHW, batch norms not folded
  b      PyTorch at its best: the fastest of a, norms folded in NCHW, the same in channels-last, and frozen by
         TorchScript's `optimize_for_inference`
  foil   the network as `foil score` runs it

All are processes that stay: weights are loaded once, then the sides take turns. A number is the median over the turns
of each turn's best run, and the range in brackets that of the turns. Ratios are of those medians. PyTorch runs under
`inference_mode`; its input already has the layout.

A second table gives the memory of a fresh process for each: resident peak from the moment the network is ready. A third
says how far each is from PyTorch in float64, for the same photograph: relative L2 error and largest error over the
largest value, of the worst output.
"""

import json
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

from .common import LIB, ROOT, Worker, core_sets, find_photos, table

# Network, side of the image, most of a's time, most of b's time.
NETS = [
    ("alexnet_features", 256, 0.75, 1.0),
    ("squeezenet1_1_features", 256, 0.4, 1.0),
    ("vgg16_features", 256, 0.45, 0.55),
    ("inception_stem", 299, 0.6, 1.0),
    ("inception", 299, 0.6, 0.85),
    ("resnet50", 224, 0.65, 0.85),
    ("mobilenet_v2", 224, 0.7, 1.0),
    ("efficientnet_lite0", 224, 0.7, 1.0),
    ("convnext_tiny", 224, 0.9, 1.0),
    ("swin_t", 224, 0.9, 1.0),
]
# With --fast, of b's time; the others as without.
FAST = {"alexnet_features": 0.7, "vgg16_features": 0.5, "resnet50": 0.7}
# foil's error may be so many times PyTorch's own in f32 (the worse of its layouts): Winograd's and bf16's ways have more.
MOST_ERROR, MOST_ERROR_FAST = 10.0, 40.0
SHOWN = {"plain": "as a", "folded": "NCHW", "folded_last": "NHWC", "frozen": "frozen"}


def numbers(text):
    return [int(n) for n in text.split(",")]


def options(parser):
    parser.add_argument("--nets", help="of `nets`: only these, with commas between; default: all of "
                        + ", ".join(name for name, *_ in NETS))
    parser.add_argument("--threads", type=numbers, default=[1, 2], help="of `nets` (default 1,2)")
    parser.add_argument("--batches", type=numbers, default=[1, 8], help="of `nets` (default 1,8)")
    parser.add_argument("--alternations", type=int, default=3, help="turns of `nets`; 1 with --quick")
    parser.add_argument("--seconds", type=float, default=0.5, help="of a turn of `nets`, at least two runs (default 0.5)")
    parser.add_argument("--times-only", action="store_true", help="of `nets`: neither memory nor accuracy")
    parser.add_argument("--clock", choices=["wall", "cpu"], default="wall",
                        help="of `nets`: CPU time of the process suits one thread on a busy machine")
    parser.add_argument("--worker", type=Path, help="foil's worker for `nets` (default: built by cargo)")


def bench(name):
    """Path of a bench target, built."""
    done = subprocess.run(["cargo", "bench", "--bench", name, "--no-run", "--message-format", "json"], cwd=ROOT,
                          check=True, stdout=subprocess.PIPE, text=True)
    for message in map(json.loads, done.stdout.splitlines()):
        if message.get("executable") and message["target"]["name"] == name:
            return message["executable"]
    sys.exit(f"peers: cargo built no bench {name}")


class Sides:
    """The three processes of one number of threads."""

    def __init__(self, setting, worker, cores):
        self.cores, self.setting, self.worker = cores, setting, worker
        self.a, self.b, self.foil = self.torch(), self.torch(), self.engine()

    def torch(self):
        return Worker([self.setting.python, LIB / "torch_worker.py", str(len(self.cores))], self.cores)

    def engine(self):
        return Worker([self.worker], self.cores, self.setting.environment)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for side in (self.a, self.b, self.foil):
            side.__exit__()


def run(setting, args):
    names = args.nets.split(",") if args.nets else [name for name, *_ in NETS]
    unknown = set(names) - {name for name, *_ in NETS}
    if unknown:
        sys.exit(f"peers: no network {', '.join(sorted(unknown))}; see --help")
    if args.clock == "cpu" and max(args.threads) > 1:
        sys.exit("peers: --clock cpu needs --threads 1: PyTorch's threads spin while they wait, which counts as CPU time")
    worker = args.worker or bench("worker")
    times, memory, errors, device, agree = [], [], [], "", True
    with tempfile.TemporaryDirectory(prefix="foil-peers-") as folder:
        for turn, cores in enumerate(core_sets(args.threads)):
            with Sides(setting, worker, cores) as sides:
                for net in (net for net in NETS if net[0] in names):
                    weights = Path(folder, f"{net[0]}.safetensors")
                    if not weights.exists():
                        sides.foil.ask("export", net[0], weights)
                    device = sides.foil.ask("load", net[0])["device"]
                    for side in (sides.a, sides.b):
                        side.ask("load", net[0], net[1], weights)
                    sides.a.ask("use", "plain")
                    for batch in args.batches:
                        row, best = contest(sides, net, batch, args)
                        times.append(row)
                        if turn == 0 and batch == max(args.batches) and not args.times_only:
                            memory.append([net[0], *peaks(sides, net, weights, batch, best)])
                    if turn == 0 and not args.times_only:
                        rows, right = accuracy(sides, net, Path(folder), args)
                        errors += rows
                        agree &= right
                    for side in (sides.a, sides.b, sides.foil):
                        side.ask("drop")
                    print(f"nets: {net[0]}, {len(cores)} threads done", file=sys.stderr)
    turns = 1 if args.quick else args.alternations
    print(f"foil on {device}. Milliseconds of {args.clock} time per batch, medians of the best of {turns} turns "
          "[smallest to largest]; **bold** misses its target.\n")
    print(table(["network", "threads", "batch", "torch a ms", "torch b ms", "b is", "foil ms", "foil/a", "≤", "foil/b",
                 "≤"], times))
    if args.times_only:
        return True
    print(f"\nResident peak of a fresh process, MB, {args.threads[0]} threads, batch {max(args.batches)}:\n")
    print(table(["network", "torch a", "torch b", "foil"], memory))
    print("\nErrors against PyTorch in float64, same weights and input:\n")
    print(table(["network", "side", "relative L2", "largest / largest value"], errors))
    return agree


def contest(sides, net, batch, args):
    """A row of the table of times, and the variant that was b."""
    name, side, most_a, most_b = net
    if args.fast:
        most_b = FAST.get(name, most_b)
    runs, seconds, turns = (1, 0.2, 1) if args.quick else (2, args.seconds, args.alternations)
    best = choose(sides.b, batch, seconds / 3, args.clock)
    taken = {"foil": [], "a": [], "b": []}
    for _ in range(turns):
        for key, worker, words in [("foil", sides.foil, [name, side]), ("a", sides.a, []), ("b", sides.b, [])]:
            taken[key].append(worker.ask("time", *words, batch, runs, seconds)[args.clock]["best"])
    # What was fastest when it was chosen need not be so in the turns.
    if statistics.median(taken["a"]) < statistics.median(taken["b"]):
        best, taken["b"] = "plain", taken["a"]
    middle = {key: statistics.median(values) for key, values in taken.items()}
    shown = {key: f"{middle[key]:.1f} [{min(values):.1f} to {max(values):.1f}]" for key, values in taken.items()}
    row = [name, len(sides.cores), batch, shown["a"], shown["b"], SHOWN[best], shown["foil"],
           *judged(middle["foil"] / middle["a"], most_a), *judged(middle["foil"] / middle["b"], most_b)]
    return row, best


def peaks(sides, net, weights, batch, best):
    """Peak memory of a, b and foil, each in a process of its own."""
    name, side, *_ = net
    found = []
    for variant in ("plain", best):
        with sides.torch() as torch:
            torch.ask("load", name, side, weights)
            torch.ask("use", variant)
            found.append(torch.ask("time", batch, 1, 0)["rss"]["VmHWM"])
    with sides.engine() as foil:
        foil.ask("load", name)
        found.append(foil.ask("time", name, side, batch, 1)["rss"]["VmHWM"])
    return [f"{megabytes:.0f}" for megabytes in found]


def judged(ratio, most):
    return [f"{ratio:.2f}" if ratio <= most else f"**{ratio:.2f}**", f"{most}"]


def choose(worker, batch, seconds, clock):
    """Makes `worker` use the fastest variant; its name."""
    found = {}
    for variant in SHOWN:
        # TorchScript may refuse a network.
        if "error" not in worker.try_ask("use", variant):
            found[variant] = worker.ask("time", batch, 2, seconds)[clock]["best"]
    best = min(found, key=found.get)
    if best != list(found)[-1]:
        worker.ask("use", best)
        worker.ask("time", batch, 1, 0)
    return best


def accuracy(sides, net, folder, args):
    """Rows of the table of errors, and whether foil's is of PyTorch's kind."""
    name, side, *_ = net
    files = {key: folder / f"{key}.safetensors" for key in ("input", "truth", "output")}
    photo = min(find_photos(args.photos).glob("*.png"))
    sides.a.ask("photo", photo, side, files["input"])
    sides.a.ask("run", "float64", files["input"], files["truth"])
    rows, worst = [], {"foil": 0.0, "torch": 0.0}
    for title, ask in [
        ("foil", lambda: sides.foil.ask("run", name, files["input"], files["output"])),
        ("torch f32 NCHW", lambda: sides.a.ask("run", "plain", files["input"], files["output"])),
        ("torch f32 NHWC", lambda: sides.a.ask("run", "folded_last", files["input"], files["output"])),
    ]:
        ask()
        error = sides.a.ask("compare", files["truth"], files["output"])
        rows.append([name, title, f"{error['l2']:.1e}", f"{error['largest']:.1e}"])
        side = title.split()[0]
        # Not `>`: an error that is no number is larger than any.
        if not error["l2"] <= worst[side]:
            worst[side] = error["l2"]
    right = worst["foil"] <= worst["torch"] * (MOST_ERROR_FAST if args.fast else MOST_ERROR)
    return rows, right
