"""What `peers attribution` runs inside the venv: DATA MODEL POINTS FOLDER; prints JSON of seconds and differences."""

import json
import sys
import time
from itertools import combinations
from math import comb
from pathlib import Path

import numpy as np
from safetensors.numpy import load_file


def seconds_of(work, points):
    start = time.process_time()
    found = work()
    return (time.process_time() - start) / points, found


def main():
    data, model, points, folder = Path(sys.argv[1]), sys.argv[2], int(sys.argv[3]), Path(sys.argv[4])
    train = np.loadtxt(data / "train.csv", delimiter=",", skiprows=1)[:, :-1]
    x = np.loadtxt(data / "test.csv", delimiter=",", skiprows=1)[:points, :-1]
    description = json.loads((data / "dataset.json").read_text())["features"]
    mean, covariance = np.array(description["mean"]), np.array(description["covariance"])
    w = load_file(model)
    d = x.shape[1]
    subsets = [s for k in range(d + 1) for s in combinations(range(d), k)]

    def f(rows):
        return (np.maximum(rows @ w["w0"] + w["b0"], 0) @ w["w1"])[:, 0] + w["b1"][0]

    def regression(values, ends, intercept):
        design = np.array([[float(j in s) for j in range(d)] for s in subsets])
        if intercept:
            design = np.c_[np.ones(len(subsets)), design]
        weights = np.array([ends if len(s) in (0, d) else (d - 1) / (comb(d, len(s)) * len(s) * (d - len(s))) for s in subsets])
        return np.linalg.solve(design.T @ (weights[:, None] * design), design.T @ (weights * np.array(values)))

    def shap_values():
        import shap

        explainer = shap.Explainer(f, shap.maskers.Independent(train, max_samples=100))
        explainer(x[:1])
        return seconds_of(lambda: explainer(x).values, points)

    def shapr_values():
        spread = np.cov(train.T)

        def of(point):
            values = []
            for s in map(list, subsets):
                weights = np.ones(len(train))
                if len(s) > 1:
                    apart = train[:, s] - point[s]
                    squared = np.einsum("ij,jk,ik->i", apart, np.linalg.pinv(spread[np.ix_(s, s)]), apart) / len(s)
                    weights = np.exp(-squared / (2 * 0.4**2))
                total = 0.0
                for row, weight in zip(train, weights):
                    mixed = row.copy()
                    mixed[s] = point[s]
                    total += weight * f(mixed[None])[0]
                values.append(total / weights.sum())
            return regression(values, 1e4, True)[1:]

        few = x[: min(points, 2)]
        return seconds_of(lambda: np.array([of(p) for p in few]), len(few))

    def lime_values():
        from lime.lime_tabular import LimeTabularExplainer

        explainer = LimeTabularExplainer(train, mode="regression", kernel_width=0.5 * np.sqrt(d), random_state=0)
        return seconds_of(lambda: [explainer.explain_instance(p, f, num_features=d) for p in x], points)

    def maple_values():
        from sklearn.ensemble import RandomForestRegressor
        from sklearn.linear_model import Ridge
        from sklearn.model_selection import train_test_split

        def work():
            rows, held = train_test_split(train, test_size=0.2, random_state=0)
            response, expected = f(rows), f(held)
            forest = RandomForestRegressor(200, max_features=0.5, min_samples_leaf=10).fit(rows, response)
            leaves = forest.apply(rows)

            def near(point):
                own = forest.apply(point[None])[0]
                same = leaves == own
                return (same / same.sum(0)).sum(1)

            for kept in range(1, d + 1):
                for point in held:
                    Ridge(alpha=0.001).fit(rows[:, :kept], response, near(point)).predict(point[None, :kept])
            return [Ridge(alpha=0.001).fit(rows, response, near(p)).coef_ * (p - train.mean(0)) for p in x]

        return seconds_of(work, points)

    def truth():
        random = np.random.default_rng(0)

        def of(point):
            values = []
            for s in subsets:
                known, free = list(s), [j for j in range(d) if j not in s]
                rows = np.repeat(point[None], 20_000, 0)
                if free:
                    gain = covariance[np.ix_(free, known)] @ np.linalg.pinv(covariance[np.ix_(known, known)]) if known else np.zeros((len(free), 0))
                    middle = mean[free] + gain @ (point[known] - mean[known])
                    left = covariance[np.ix_(free, free)] - gain @ covariance[np.ix_(known, free)]
                    rows[:, free] = random.multivariate_normal(middle, left, 20_000)
                values.append(f(rows).mean())
            return regression(values, 1e6, False)

        return seconds_of(lambda: np.array([of(p) for p in x]), points)

    seconds, values = {}, {}
    for name, work in {"shap": shap_values, "shapr": shapr_values, "lime": lime_values, "maple": maple_values, "gt-shapley": truth}.items():
        seconds[name], values[name] = work()
    differences = {}
    for name in ["shap", "shapr"]:
        ours = np.loadtxt(folder / f"{name}.csv", delimiter=",", skiprows=1, ndmin=2)[: len(values[name])]
        differences[name] = float(abs(ours - values[name]).max())
    ours = np.loadtxt(folder / "shap.csv", delimiter=",", skiprows=1, ndmin=2)[:points]
    correlation = np.mean([np.corrcoef(a, b)[0, 1] for a, b in zip(ours, values["gt-shapley"])])
    print(json.dumps({"seconds": seconds, "differences": differences, "gt_shapley": float(correlation)}))


if __name__ == "__main__":
    main()
