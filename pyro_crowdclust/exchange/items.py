"""Texts and pictures of items, as they are shown to workers."""

from __future__ import annotations

import base64
import mimetypes
import struct
import zlib
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from jaxtyping import Num

from pyro_crowdclust.data.tables import in_pandas, to_index, unknown
from pyro_crowdclust.errors import count, show

# Addresses that tools can load themselves; everything else is a file to embed.
_ADDRESSES = ("http://", "https://", "s3://", "gs://", "data:")


@dataclass(frozen=True)
class ShownItems:
    """Items as workers see them: a picture, texts, or both.

    Parameters
    ----------
    frame
        One row per item, indexed by id. A column ``image`` has the names of picture files or their
        addresses (``https:``, ``data:``); all other columns are shown as text. None: the id is
        shown.

    Examples
    --------
    >>> birds = pd.DataFrame({"size": ["small"], "song": ["loud"]}, index=["wren"])
    >>> ShownItems(birds).text("wren").splitlines()
    ['size: small', 'song: loud']
    >>> ShownItems(None).text("wren")
    'wren'
    """

    frame: pd.DataFrame | None

    @classmethod
    def of(cls, items: Items) -> ShownItems:
        """Shown items from a data frame, from one text per id, or unchanged.

        Raises
        ------
        ValueError
            If an id is repeated, or there is not one text for every id.
        """
        if isinstance(items, ShownItems):
            return items
        if items is None:
            return cls(None)
        items = in_pandas(items)
        if not isinstance(items, pd.DataFrame):
            try:
                items = pd.Series(items).rename("text").to_frame()
            except (TypeError, ValueError) as error:
                raise ValueError(
                    f"items are not texts ({error}): pass a data frame with a row for every id, a "
                    "text for every id, or for pictures picture_frame(pixels)"
                ) from error
        if items.index.has_duplicates:
            twice = show(items.index[int(items.index.duplicated().argmax())])
            raise ValueError(f"items have two rows with the id {twice}: drop one of them")
        return cls(items)

    @property
    def has_images(self) -> bool:
        """Whether there are pictures."""
        return self.frame is not None and "image" in self.frame

    @property
    def has_texts(self) -> bool:
        """Whether there are texts to show."""
        return self.frame is None or any(name != "image" for name in self.frame.columns)

    def fields(self, item: Hashable) -> dict[str, Any]:
        """The columns of an item, as plain values; empty cells are None.

        Raises
        ------
        ValueError
            If the item is unknown.
        """
        if self.frame is None:
            return {"text": str(item)}
        if item not in self.frame.index:
            raise ValueError(
                f"a question is about the item {show(item)}, {unknown(self.frame.index, item)}"
            )
        row = int(self.frame.index.get_indexer(pd.Index([item]))[0])
        cells = {str(name): column.iloc[row] for name, column in self.frame.items()}
        return {name: None if pd.isna(cell) else _plain(cell) for name, cell in cells.items()}

    def text(self, item: Hashable) -> str:
        """The texts of an item, with the names of their columns if there are several."""
        texts = {name: value for name, value in self.fields(item).items() if name != "image"}
        if len(texts) == 1:
            (value,) = texts.values()
            return "" if value is None else str(value)
        return "\n".join(f"{name}: {value}" for name, value in texts.items() if value is not None)

    def image(self, item: Hashable) -> str:
        """Address of the picture of an item; a file is embedded as a ``data:`` address.

        Raises
        ------
        ValueError
            If the file cannot be read, or is not a picture.
        """
        value = self.fields(item)["image"]
        if value is None:
            raise ValueError(f"item {show(item)} has no image: give its file, or drop the row")
        address = str(value)
        if address.startswith(_ADDRESSES):
            return address
        kind = mimetypes.guess_type(address)[0] or ""
        if not kind.startswith("image/"):
            raise ValueError(
                f"image of item {show(item)}: {address} is not a picture, by its suffix: give a "
                "file such as .png or .jpg"
            )
        try:
            content = Path(address).read_bytes()
        except OSError as error:
            raise ValueError(
                f"image of item {show(item)}: cannot read {address} ({error.strerror or error})"
            ) from error
        return _data_address(kind, content)

    def numbered(self, items: Sequence[Hashable]) -> dict[str, str]:
        """Pictures and texts of several items: ``image_1``, ``text_1``, ``image_2``, ..."""
        found = {}
        for place, item in enumerate(items, 1):
            if self.has_images:
                found[f"image_{place}"] = self.image(item)
            if self.has_texts:
                found[f"text_{place}"] = self.text(item)
        return found


# What every format accepts as items to show: a table, a text for every id, or None for the ids.
Items = pd.DataFrame | pd.Series | Mapping[Any, Any] | ShownItems | None


def picture_frame(
    pictures: Num[np.ndarray, "item ..."], ids: pd.Index | None = None
) -> pd.DataFrame:
    """Arrays of pixels as pictures to show: a data frame with one column ``image``.

    Parameters
    ----------
    pictures
        Grey, ``[item, height, width]``, or red, green and blue, with a last axis of 3. Values of
        type uint8 are used as they are, from 0 to 255; others are scaled so that the largest value
        of all pictures is white.
    ids
        Ids of the items; default: their positions.

    Raises
    ------
    ValueError
        If the array has another shape, negative or infinite values, or not one id for each picture.

    Examples
    --------
    >>> frame = picture_frame(np.zeros((2, 8, 8)), pd.Index(["a", "b"]))
    >>> frame.loc["a", "image"][:22]
    'data:image/png;base64,'
    """
    pictures = np.asarray(pictures)
    if pictures.ndim not in (3, 4) or (pictures.ndim == 4 and pictures.shape[3] != 3):
        raise ValueError(
            f"pictures have the shape {list(pictures.shape)}, but must be [item, height, width], "
            "optionally with a last axis of 3 colours"
        )
    if pictures.size and not (pictures.min() >= 0 and np.isfinite(pictures.max())):
        raise ValueError(
            "pictures have negative, infinite or missing values, but must be from 0 (black) to a "
            "largest value (white)"
        )
    index = pd.RangeIndex(len(pictures)) if ids is None else to_index(ids, "ids")
    if len(index) != len(pictures):
        raise ValueError(
            f"{count(len(index), 'id')} for {count(len(pictures), 'picture')}: pass one id for each"
        )
    if pictures.dtype != np.uint8:
        scale = 255.0 / max(float(pictures.max(initial=0)), 1e-300)
        pictures = np.round(pictures * scale).astype(np.uint8)
    images = [_data_address("image/png", _png(one)) for one in pictures]
    return pd.DataFrame({"image": images}, index=index)


def _png(pixels: Num[np.ndarray, "height width ..."]) -> bytes:
    """A picture in the PNG format (ISO 15948), with unfiltered rows."""
    height, width = pixels.shape[:2]
    colour = 2 if pixels.ndim == 3 else 0
    rows = np.ascontiguousarray(pixels).reshape(height, -1)
    raw = np.concatenate([np.zeros((height, 1), np.uint8), rows], axis=1).tobytes()

    def chunk(name: bytes, data: bytes) -> bytes:
        checked = name + data
        return struct.pack(">I", len(data)) + checked + struct.pack(">I", zlib.crc32(checked))

    header = struct.pack(">IIBBBBB", width, height, 8, colour, 0, 0, 0)
    parts = chunk(b"IHDR", header), chunk(b"IDAT", zlib.compress(raw, 9)), chunk(b"IEND", b"")
    return b"\x89PNG\r\n\x1a\n" + b"".join(parts)


def _data_address(kind: str, content: bytes) -> str:
    return f"data:{kind};base64,{base64.b64encode(content).decode('ascii')}"


def _plain(value: Any) -> Any:
    """A value of a type that JSON has."""
    value = value.item() if isinstance(value, np.generic) else value
    return value if isinstance(value, (str, int, float, bool)) else str(value)
