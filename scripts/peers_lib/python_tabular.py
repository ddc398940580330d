"""What `peers tabular` runs inside the venv.

wine OUT: the table. choose DATA SCHEMA MODEL FACTUALS N: writes the first N rows of each class that the network gives, prints how many. judge DATA SCHEMA MODEL FACTUALS CSV: what the
network makes of foil's counterfactuals. explain DATA SCHEMA MODEL FACTUALS: the searches of dice-ml.
"""

import json
import sys
import time
import warnings

import numpy as np
import pandas as pd
from safetensors.numpy import load_file

warnings.filterwarnings("ignore")


class Network:
    """foil's network on rows of a table, with numbers scaled by the mean and population deviation of all rows."""

    def __init__(self, data, schema, model):
        self.schema = json.load(open(schema))
        self.table = pd.read_csv(data, dtype={f["name"]: str for f in self.schema["features"] if f["kind"] != "numerical"})
        self.weights = {name: value.astype(float) for name, value in load_file(model).items()}
        self.names = [f["name"] for f in self.schema["features"]]
        self.numbers = [f["name"] for f in self.schema["features"] if f["kind"] == "numerical"]
        # Categories come first, numbers after them.
        self.order = sorted(self.schema["features"], key=lambda f: f["kind"] == "numerical")
        self.scale = {n: (self.table[n].mean(), self.table[n].std(ddof=0)) for n in self.numbers}

    def encode(self, rows):
        columns = []
        for feature in self.order:
            name = feature["name"]
            if feature["kind"] == "numerical":
                mean, deviation = self.scale[name]
                columns.append((rows[name].astype(float) - mean) / deviation)
            elif feature["kind"] == "binary":
                columns.append((rows[name].astype(str) == feature["values"][1]).astype(float))
            else:
                columns += [(rows[name].astype(str) == value).astype(float) for value in feature["categories"]]
        return np.stack([np.asarray(c, dtype=float) for c in columns], axis=1)

    def predict_proba(self, rows):
        w = self.weights
        z = np.maximum(self.encode(rows) @ w["w1"] + w["b1"], 0) @ w["w2"] + w["b2"]
        e = np.exp(z - z.max(axis=1, keepdims=True))
        return e / e.sum(axis=1, keepdims=True)

    def predict(self, rows):
        return (self.predict_proba(rows)[:, 1] > 0.5).astype(int)


def changed(network, a, b):
    """Features that differ between two rows of tables."""
    count = 0
    for name in network.names:
        if name in network.numbers:
            count += abs(float(a[name]) - float(b[name])) > 1e-9 * max(1.0, abs(float(a[name])))
        else:
            count += str(a[name]) != str(b[name])
    return count


def judged(network, factuals, pairs):
    """`pairs`: number of a factual and its counterfactual."""
    before = network.predict(factuals)
    hits, moves = 0, []
    for number, row in pairs:
        if network.predict(row.to_frame().T)[0] != before[number]:
            hits += 1
            moves.append(changed(network, factuals.iloc[number], row))
    return {"covered": hits / len(factuals), "changed": float(np.mean(moves)) if moves else float("nan")}


def explain(network, factuals):
    import dice_ml

    frame = network.table[network.names].copy()
    frame["outcome"] = network.predict(frame)
    data = dice_ml.Data(dataframe=frame, continuous_features=network.numbers, outcome_name="outcome")
    # The genetic search fails on tables without numbers.
    names = ["random", "genetic", "kdtree"] if network.numbers else ["random", "kdtree"]
    ways = {method: (method, "sklearn", network) for method in names}
    try:
        ways["gradient"] = ("gradient", "PYT", torch_network(network, data))
    except ImportError:
        print("torch is not installed: no gradient search", file=sys.stderr)
    found = {}
    for name, (method, backend, model) in ways.items():
        words = {"func": "ohe-min-max"} if backend == "PYT" else {}
        search = dice_ml.Dice(data, dice_ml.Model(model=model, backend=backend, model_type="classifier", **words), method=method)
        start, pairs = time.process_time(), []
        for number in range(len(factuals)):
            try:
                answer = search.generate_counterfactuals(factuals.iloc[[number]], total_CFs=1, desired_class="opposite", verbose=False)
            except Exception as error:
                if "No counterfactuals" not in str(error):
                    raise
                continue
            rows = answer.cf_examples_list[0].final_cfs_df
            if rows is not None and len(rows):
                pairs.append((number, rows.iloc[0][network.names]))
        seconds = (time.process_time() - start) / len(factuals)
        found[name] = {"seconds": seconds, **judged(network, factuals, pairs)}
    return found


def torch_network(network, data):
    """The network behind dice-ml's own encoding: numbers scaled to [0, 1], one-hot columns in its order."""
    import torch

    names = list(data.get_ohe_min_max_normalized_data(network.table[network.names].head(1)).columns)
    frame = network.table[network.names]
    source = np.zeros((len(names), len(network.weights["w1"])))
    offset, at = np.zeros(source.shape[1]), 0
    for feature in network.order:
        name = feature["name"]
        if feature["kind"] == "numerical":
            low, high = frame[name].min(), frame[name].max()
            mean, deviation = network.scale[name]
            source[names.index(name), at] = (high - low) / deviation
            offset[at] = (low - mean) / deviation
            at += 1
        elif feature["kind"] == "binary":
            source[names.index(f"{name}_{feature['values'][1]}"), at] = 1.0
            at += 1
        else:
            for value in feature["categories"]:
                source[names.index(f"{name}_{value}"), at] = 1.0
                at += 1
    w = network.weights
    first, second = torch.nn.Linear(len(names), len(w["b1"])), torch.nn.Linear(len(w["b1"]), 1)
    with torch.no_grad():
        first.weight.copy_(torch.tensor((source @ w["w1"]).T))
        first.bias.copy_(torch.tensor(offset @ w["w1"] + w["b1"]))
        second.weight.copy_(torch.tensor((w["w2"][:, 1] - w["w2"][:, 0])[None]))
        second.bias.copy_(torch.tensor([w["b2"][1] - w["b2"][0]]))
    return torch.nn.Sequential(first, torch.nn.ReLU(), second, torch.nn.Sigmoid())


def main():
    task, rest = sys.argv[1], sys.argv[2:]
    if task == "wine":
        from sklearn.datasets import load_wine

        wine = load_wine(as_frame=True)
        frame = wine.data.rename(columns=lambda name: name.replace("/", "_"))
        frame["class"] = wine.target
        frame.to_csv(rest[0], index=False)
        return
    network = Network(*rest[:3])
    if task == "choose":
        rows = network.table[network.names]
        classes = network.predict(rows)
        chosen = np.concatenate([np.flatnonzero(classes == c)[: int(rest[4])] for c in (0, 1)])
        rows.iloc[chosen].to_csv(rest[3], index=False)
        print(len(chosen))
        return
    factuals = pd.read_csv(rest[3], dtype={n: str for n in network.names if n not in network.numbers})
    if task == "judge":
        given = pd.read_csv(rest[4], dtype={n: str for n in network.names if n not in network.numbers})
        pairs = [(int(row["factual"]), row[network.names]) for _, row in given.iterrows() if int(row["number"]) == 0]
        print(json.dumps(judged(network, factuals, pairs)))
    else:
        print(json.dumps(explain(network, factuals)))


if __name__ == "__main__":
    main()
