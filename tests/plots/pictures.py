"""How many items the drawn fits are of, and what a picture shows."""

from __future__ import annotations

import io

import numpy as np

NUM_ITEMS = 60


def rendered(drawn) -> bytes:
    """The picture's bytes, so that everything is really drawn."""
    file = io.BytesIO()
    getattr(drawn, "figure", drawn).savefig(file, format="png", metadata={"Software": None})
    return file.getvalue()


def offsets(collection) -> np.ndarray:
    return np.asarray(collection.get_offsets())


def rows(array) -> set[tuple[float, ...]]:
    return {tuple(row) for row in np.round(np.asarray(array, float), 9).tolist()}
