"""What `peers attribution` runs inside the venv: DATA MODEL FOLDER FEW sklearn|numpy; prints JSON of seconds for each point, differences of weights, and values
of metrics. The last word says what the model is: scikit-learn's MLPRegressor, as in the benchmark, or the same network in four numpy calls."""

import json
import sys
import time
from itertools import combinations
from math import comb
from pathlib import Path

import numpy as np
from safetensors.numpy import load_file


REPETITIONS = 3
# Seconds after which work is not done once more.
ENOUGH = 5.0


def seconds_of(work, points):
    """The least of three runs, or of as many as begin within five seconds."""
    least, spent, done = float("inf"), 0.0, 0
    while done < REPETITIONS and spent < ENOUGH:
        start = time.process_time()
        found = work()
        own = time.process_time() - start
        least, spent, done = min(least, own), spent + own, done + 1
    return least / points, found


def main():
    data, model, folder = Path(sys.argv[1]), sys.argv[2], Path(sys.argv[3])

    def rows_of(path):
        return np.loadtxt(path, delimiter=",", skiprows=1, ndmin=2)

    (train, y_train), (x, y) = ((t[:, :-1], t[:, -1]) for t in (rows_of(data / "train.csv"), rows_of(data / "test.csv")))
    points = len(x)
    few = min(points, int(sys.argv[4]))
    description = json.loads((data / "dataset.json").read_text())["features"]
    mean, covariance = np.array(description["mean"]), np.array(description["covariance"])
    w = load_file(model)
    d = x.shape[1]
    subsets = [s for k in range(d + 1) for s in combinations(range(d), k)]

    def lean(rows):
        return (np.maximum(rows @ w["w0"] + w["b0"], 0) @ w["w1"])[:, 0] + w["b1"][0]

    def fitted():
        import warnings

        from sklearn.neural_network import MLPRegressor

        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            known = MLPRegressor(hidden_layer_sizes=(len(w["b0"]),), max_iter=1).fit(train[:9], y_train[:9])
        known.coefs_, known.intercepts_ = [w["w0"], w["w1"]], [w["b0"], w["b1"]]
        return known.predict

    f = fitted() if sys.argv[5] == "sklearn" else lean

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

        two = x[:2]
        return seconds_of(lambda: np.array([of(p) for p in two]), len(two))

    def lime_values():
        from lime.lime_tabular import LimeTabularExplainer

        explainer = LimeTabularExplainer(train, mode="regression", kernel_width=0.5 * np.sqrt(d), random_state=0)

        def of(point):
            weights = np.zeros(d)
            for j, weight in explainer.explain_instance(point, f, num_features=d).as_map()[1]:
                weights[j] = weight
            return weights

        return seconds_of(lambda: np.array([of(p) for p in x]), points)

    def maple_values():
        from sklearn.ensemble import RandomForestRegressor
        from sklearn.linear_model import Ridge
        from sklearn.model_selection import train_test_split

        def work():
            rows, held = train_test_split(train, test_size=0.2, random_state=0)
            response, expected = f(rows), f(held)
            forest = RandomForestRegressor(200, max_features=0.5, min_samples_leaf=10).fit(rows, response)
            leaves = forest.apply(rows)

            def near(own):
                # Tree by tree, as MAPLE's public code does.
                weights = np.zeros(len(rows))
                for tree, leaf in enumerate(own):
                    same = np.where(leaves[:, tree] == leaf)[0]
                    weights[same] += 1 / len(same)
                return weights

            scores = np.zeros(d)
            for tree in forest.estimators_:
                if tree.tree_.feature[0] >= 0:
                    scores[tree.tree_.feature[0]] += tree.tree_.impurity[0]
            order, held_leaves = np.argsort(-scores), forest.apply(held)
            errors = []
            for kept in range(1, d + 1):
                best, found = order[:kept], []
                for point, own in zip(held, held_leaves):
                    found.append(Ridge(alpha=0.001).fit(rows[:, best], response, near(own)).predict(point[None, best])[0])
                errors.append(((np.array(found) - expected) ** 2).mean())
            best, middle = order[: int(np.argmin(errors)) + 1], train.mean(0)
            weights = np.zeros((len(x), d))
            for row, p in zip(weights, x):
                local = Ridge(alpha=0.001).fit(rows[:, best], response, near(forest.apply(p[None])[0]))
                row[best] = local.coef_ * (p - middle)[best]
            return weights

        return seconds_of(work, points)

    def breakdown_values():
        def of(point):
            left, rows = list(range(d)), np.repeat(point[None], len(train), 0)
            at_point = before = f(point[None])[0]
            found = np.zeros(d)
            # Downwards: features are given up one by one, the one that moves the mean least from the prediction first.
            for rank in reversed(range(d)):
                means = []
                for j in left:
                    tried = rows.copy()
                    tried[:, j] = train[:, j]
                    means.append(f(tried).mean())
                at = int(np.argmin(np.abs(np.array(means) - at_point)))
                rows[:, left[at]] = train[:, left[at]]
                found[rank], before = before - means[at], means[at]
                left.pop(at)
            return found

        return seconds_of(lambda: np.array([of(p) for p in x]), points)

    random = np.random.default_rng(0)

    def drawn(point, known, n):
        """Rows in which the other features are drawn given the known ones."""
        known, free = list(known), [j for j in range(d) if j not in known]
        rows = np.repeat(point[None], n, 0)
        if free:
            gain = covariance[np.ix_(free, known)] @ np.linalg.pinv(covariance[np.ix_(known, known)]) if known else np.zeros((len(free), 0))
            middle = mean[free] + gain @ (point[known] - mean[known])
            left = covariance[np.ix_(free, free)] - gain @ covariance[np.ix_(known, free)]
            rows[:, free] = random.multivariate_normal(middle, left, n)
        return rows

    def truth():
        def of(point):
            return regression([f(drawn(point, s, 20_000)).mean() for s in subsets], 1e6, False)

        return seconds_of(lambda: np.array([of(p) for p in x[:few]]), few)

    shap_weights = rows_of(folder / "shap.csv")

    def faithfulness():
        def of(point, weights):
            changes = [abs(f(point[None])[0] - f(drawn(point, set(range(d)) - {j}, 100)).mean()) for j in range(d)]
            return np.corrcoef(abs(weights), changes)[0, 1]

        return seconds_of(lambda: np.mean([of(p, w) for p, w in zip(x, shap_weights)]), points)

    def monotonicity():
        start = f(x).mean()

        def of(point, weights):
            known, values = [], np.full(d + 1, start)
            for j in np.argsort(abs(weights))[::-1]:
                known.append(j)
                # At the place of the feature, as the benchmark's code has it.
                values[j + 1] = f(drawn(point, known, 100)).mean()
            changes = abs(np.diff(values))[::-1]
            return np.mean(np.diff(changes) >= 0)

        return seconds_of(lambda: np.mean([of(p, w) for p, w in zip(x, shap_weights)]), points)

    def infidelity():
        def of(point, weights):
            along, changes = [], []
            for _ in range(1000):
                perturbed = np.clip(-0.2 * random.standard_normal(d), 0, 1)
                along.append((point - perturbed) @ weights)
                changes.append(f(point[None])[0] - f(perturbed[None])[0])
            along, changes = np.array(along), np.array(changes)
            scale = (along * changes).mean() / (along**2).mean()
            return ((changes - scale * along) ** 2).mean()

        return seconds_of(lambda: np.mean([of(p, w) for p, w in zip(x, shap_weights)]), points)

    def roar():
        from sklearn.neural_network import MLPRegressor

        def without(rows, weights, count):
            kept = [np.argsort(abs(w))[: d - count] for w in weights]
            return np.array([drawn(row, known, 1)[0] for row, known in zip(rows, kept)])

        def work():
            train_weights, losses, shares = rows_of(folder / "train.csv"), [], [0, 0.1, 0.3, 0.5, 0.7, 0.9]
            for share in shares:
                count = int(share * d)
                again = MLPRegressor().fit(without(train, train_weights, count), y_train)
                losses.append(abs(again.predict(without(x, shap_weights, count)) - y).mean())
            return sum((b - a) * (l + m) / 2 for a, b, l, m in zip(shares, shares[1:], losses, losses[1:]))

        return seconds_of(work, points)

    seconds, values = {}, {}
    methods = {"shap": shap_values, "shapr": shapr_values, "lime": lime_values, "maple": maple_values, "breakdown": breakdown_values, "gt-shapley": truth}
    for name, work in methods.items():
        seconds[name], values[name] = work()
    differences = {}
    for name in ["shap", "shapr", "breakdown"]:
        ours = rows_of(folder / f"{name}.csv")[: len(values[name])]
        differences[name] = float(abs(ours - values[name]).max())
    # Those that draw cannot agree point by point: how alike the two sides are, as the mean over points of the correlation.
    for name in ["lime", "maple"]:
        alike = [np.corrcoef(a, b)[0, 1] for a, b in zip(rows_of(folder / f"{name}.csv"), values[name])]
        differences[name] = 1 - float(np.mean(alike))
    truths = values["gt-shapley"]
    scores = {"gt-shapley": float(np.mean([np.corrcoef(a, b)[0, 1] for a, b in zip(shap_weights, truths)]))}
    metrics = {"faithfulness": faithfulness, "monotonicity": monotonicity, "infidelity": infidelity, "roar": roar}
    for name, work in metrics.items():
        seconds[name], value = work()
        scores[name] = float(value)
    print(json.dumps({"seconds": seconds, "differences": differences, "values": scores}))


if __name__ == "__main__":
    main()
