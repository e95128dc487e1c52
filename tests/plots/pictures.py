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


def cut_labels(figure) -> list[str]:
    """The labels of axes, and the texts of legends, that are not wholly in the picture."""
    figure.draw_without_rendering()
    texts = [label for axes in figure.axes for label in (axes.xaxis.label, axes.yaxis.label)]
    legends = [axes.get_legend() for axes in figure.axes if axes.get_legend()]
    texts += [text for legend in legends for text in legend.get_texts()]
    box = figure.bbox.padded(1)
    extents = {text.get_text(): text.get_window_extent() for text in texts if text.get_text()}
    return [
        text
        for text, extent in extents.items()
        if not (box.contains(*extent.min) and box.contains(*extent.max))
    ]
