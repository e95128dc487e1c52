"""``make accuracy``: run the experiments and write their figures to ``docs/results``.

    python benchmarks/accuracy.py            # all of them
    python benchmarks/accuracy.py pinwheel uci

Data sets are read from PYRO_CROWDCLUST_DATA, or from ../shared/data without it.
"""

from __future__ import annotations

from accuracy_of_class_labels import CROWDS, FEATURES, JUDGES, PAIRS
from accuracy_of_known_labels import (
    DEEP,
    DEEP_CIFAR10,
    DEEP_LABELS,
    FOUR_GAUSSIANS,
    TEXT,
    UCI,
)
from accuracy_of_pairs import CIFAR, DIGITS, FACES, MNIST, PINWHEEL, POSTERIORS
from report import measure

if __name__ == "__main__":
    deep = [DEEP_LABELS, DEEP, DEEP_CIFAR10]
    pairs = [PINWHEEL, FACES, CIFAR, DIGITS, *MNIST]
    others = [UCI, FOUR_GAUSSIANS, TEXT, CROWDS, FEATURES, PAIRS, JUDGES, POSTERIORS]
    measure([*pairs, *others, *deep])
