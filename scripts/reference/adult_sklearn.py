#!/usr/bin/env python3
"""scikit-learn's MLPClassifier on the Adult table: the figures configs/adult.toml is held against.

    python scripts/reference/adult_sklearn.py [--seeds 3] [--no-early-stopping]

Same hidden sizes as configs/adult.toml, the official test split, numeric columns standardised and
categorical ones one-hot, both fitted on the training rows alone. With early stopping (a tenth of
the training rows held out, patience 10) by default: without it the model overfits and its log loss
is no opponent. Prints one line per seed and the mean.
"""

import argparse
import csv
import gzip
import time
import warnings
from pathlib import Path

import numpy as np
from sklearn.compose import ColumnTransformer
from sklearn.metrics import accuracy_score, log_loss
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

ADULT = Path(__file__).resolve().parents[2] / "assets" / "data" / "adult"
NUMERIC = ["age", "education-num", "capital-gain", "capital-loss", "hours-per-week"]
CATEGORICAL = ["workclass", "education", "marital-status", "occupation", "relationship", "race", "sex", "native-country"]


def read(path):
    with gzip.open(path, "rt", newline="") as file:
        rows = [{k.strip().replace("_", "-"): v.strip() for k, v in row.items()} for row in csv.DictReader(file)]
    x = np.array([[*(float(r[c]) for c in NUMERIC), *(r[c] for c in CATEGORICAL)] for r in rows], dtype=object)
    y = np.array([r["income"].rstrip(".") == ">50K" for r in rows], dtype=int)
    return x, y


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--no-early-stopping", action="store_true")
    args = parser.parse_args()
    (x, y), (tx, ty) = read(ADULT / "train.csv.gz"), read(ADULT / "test.csv.gz")
    print(f"{len(y)} training rows, {len(ty)} test rows, {ty.mean():.4f} positive")
    numeric = list(range(len(NUMERIC)))
    categorical = list(range(len(NUMERIC), len(NUMERIC) + len(CATEGORICAL)))
    results = []
    for seed in range(args.seeds):
        model = make_pipeline(
            ColumnTransformer([
                ("numeric", StandardScaler(), numeric),
                ("categorical", OneHotEncoder(handle_unknown="ignore", sparse_output=False), categorical),
            ]),
            MLPClassifier(hidden_layer_sizes=(256, 256), random_state=seed, early_stopping=not args.no_early_stopping),
        )
        start = time.perf_counter()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            model.fit(x, y)
        seconds = time.perf_counter() - start
        p = model.predict_proba(tx)
        results.append((accuracy_score(ty, p[:, 1] > 0.5), log_loss(ty, p)))
        print(f"seed {seed}: accuracy {results[-1][0]:.4f}, log loss {results[-1][1]:.4f}, "
              f"{model[-1].n_iter_} epochs, {seconds:.1f} s", flush=True)
    mean = np.mean(results, axis=0)
    print(f"mean: accuracy {mean[0]:.4f}, log loss {mean[1]:.4f}; best: {max(r[0] for r in results):.4f}, {min(r[1] for r in results):.4f}")


if __name__ == "__main__":
    main()
