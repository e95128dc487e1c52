"""CIFAR-10 in gray with 1,000 labels, by a Dirichlet process deep latent Gaussian mixture.

In place of SVHN in Echraibi et al. 2020, figure 4: 20,000 images of gray values in [0, 1], and
samples of every cluster. See ``dp_dlgmm_mnist.py``, whose networks these are.

    python examples/dp_dlgmm_cifar10.py --data DIR --figures figures

DIR holds ``cifar10_train_1.npz``, ``cifar10_train_2.npz`` and ``cifar10_test_first1000.npz``. Last
line: one JSON object.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
from dp_dlgmm_mnist import Images, arguments_of, run, with_labels


def gray(images: np.ndarray) -> np.ndarray:
    """Luma of RGB images (ITU-R BT.601)."""
    return images @ np.array([0.299, 0.587, 0.114], dtype=np.float32)


def load(folder: Path, options: argparse.Namespace) -> Images:
    """The images, or the first ``--items`` of them."""
    parts = [np.load(folder / f"cifar10_train_{number}.npz") for number in (1, 2)]
    train = np.concatenate([part["images"] for part in parts])[: options.items]
    labels = np.concatenate([part["labels"] for part in parts])[: options.items]
    test = np.load(folder / "cifar10_test_first1000.npz")
    return with_labels(
        gray(train),
        labels.astype(np.int64),
        gray(test["images"]),
        test["labels"].astype(np.int64),
        min(options.labels, len(train)),
        options.seed,
    )


def main(arguments: list[str] | None = None) -> dict[str, float]:
    """Run the experiment; returns what it prints as JSON."""
    parser = arguments_of(__doc__.splitlines()[0])
    parser.add_argument("--labels", type=int, default=1000)
    parser.add_argument("--epochs", type=int, default=6)
    options = parser.parse_args(arguments)
    return run(load(options.data, options), options, "cifar10")


if __name__ == "__main__":
    main()
