"""Data of the examples: a file that is named, plain, .gz or .xz; else made up, so
that each example runs as it is."""
import gzip
import lzma

import numpy as np


def read(path):
    opened = {"gz": gzip.open, "xz": lzma.open}.get(path.rpartition(".")[2],
                                                    open)
    with opened(path, "rt", encoding="utf-8") as file:
        return file.read()


def text(path=""):
    """A text: tinyshakespeare, say."""
    if path:
        return read(path)
    r = np.random.RandomState(1)
    who, what = ("the king", "a fool", "my lord"), ("sings", "sleeps", "rides")
    return "".join(f"{who[r.randint(3)]} {what[r.randint(3)]}.\n"
                   for _ in range(1500))


def table(path=""):
    """Rows of numbers, the target last: x scaled to mean 0 and deviation 1,
    y. A first line of words is passed over."""
    if path:
        lines = read(path).splitlines()
        lines = lines[lines[0][0].isalpha():]
        rows = np.array([line.split(",") for line in lines], dtype=float)
        np.random.RandomState(1).shuffle(rows)
    else:
        r = np.random.RandomState(1)
        x = r.randn(2000, 8)
        y = np.digitize(np.sin(x @ r.randn(8)) + x[:, 0], (-1, 0, 1))
        rows = np.column_stack((x, y))
    x, y = rows[:, :-1], rows[:, -1]
    return (x - x.mean(0)) / (x.std(0) + 1e-9), y


def ratings(path=""):
    """Users, items, numbered from 0, and ratings: MovieLens's u.data, say."""
    if path:
        rows = np.array([line.split()[:3] for line in
                         read(path).splitlines()], dtype=float)
        users, items = (np.unique(c, return_inverse=True)[1]
                        for c in (rows[:, 0], rows[:, 1]))
        order = np.random.RandomState(1).permutation(len(rows))
        return users[order], items[order], rows[order, 2]
    r = np.random.RandomState(1)
    users, items = r.randint(200, size=8000), r.randint(100, size=8000)
    a, b = r.randn(200, 3), r.randn(100, 3)
    return users, items, 3 + (a[users] * b[items]).sum(1) + \
        0.1 * r.randn(8000)
