"""What people are shown: texts and pictures of items."""

from __future__ import annotations

import base64
import io

import matplotlib.image
import numpy as np
import pandas as pd
import pytest

from pyro_crowdclust.exchange import ShownItems, picture_frame


def decoded(address: str) -> np.ndarray:
    kind, _, content = address.partition(";base64,")
    assert kind == "data:image/png"
    return matplotlib.image.imread(io.BytesIO(base64.b64decode(content)), format="png")


@pytest.mark.parametrize("shape", [(3, 5), (4, 2, 3)])
def test_pictures_are_read_as_they_were(shape):
    pixels = np.random.default_rng(0).integers(0, 256, (2, *shape), dtype=np.uint8)
    shown = ShownItems.of(picture_frame(pixels, pd.Index(["a", "b"])))
    assert shown.has_images
    assert not shown.has_texts
    found = decoded(shown.image("b"))
    np.testing.assert_array_equal(np.round(255 * found), pixels[1])


def test_the_largest_number_is_white():
    frame = picture_frame(np.array([[[0.0, 1.0, 2.0]], [[4.0, 0.0, 0.0]]]))
    found = np.stack([decoded(address) for address in frame["image"]])
    np.testing.assert_allclose(found * 4, [[[0, 1, 2]], [[4, 0, 0]]], atol=0.01)
    assert decoded(picture_frame(np.zeros((1, 2, 2)))["image"][0]).max() == 0


@pytest.mark.parametrize(
    ("pictures", "message"),
    [
        (np.zeros((3, 4)), "the shape"),
        (np.zeros((3, 4, 4, 2)), "the shape"),
        (np.full((1, 2, 2), -1.0), "negative"),
        (np.full((1, 2, 2), np.nan), "missing"),
        (np.array([[[0.0, np.inf]]]), "infinite"),
    ],
)
def test_arrays_that_are_no_pictures(pictures, message):
    with pytest.raises(ValueError, match=message):
        picture_frame(pictures)


def test_files_are_put_in_and_addresses_stay(tmp_path):
    pixels = np.random.default_rng(0).random((4, 4))
    matplotlib.image.imsave(tmp_path / "one.png", pixels, cmap="gray")
    address = "https://example.org/two.jpg"
    items = pd.DataFrame(
        {"image": [str(tmp_path / "one.png"), address], "size": [3, 4], "weight": [0.5, None]},
        index=[1, 2],
    )
    shown = ShownItems.of(items)
    assert decoded(shown.image(1)).shape[:2] == (4, 4)
    assert shown.image(2) == address
    assert shown.fields(1)["size"] == 3
    assert isinstance(shown.fields(1)["size"], int)
    assert shown.text(1) == "size: 3\nweight: 0.5"
    assert shown.text(2) == "size: 4"
    numbered = {"image_1": address, "text_1": "size: 4", "image_2": shown.image(1)}
    assert shown.numbered([2, 1]) == numbered | {"text_2": shown.text(1)}


@pytest.mark.parametrize(
    ("image", "message"),
    [
        (None, "item 'a' has no image"),
        ("notes.txt", "notes.txt is not a picture"),
        ("not_there.png", "cannot read not_there.png"),
    ],
)
def test_pictures_that_are_none(image, message):
    items = pd.DataFrame({"image": [image]}, index=["a"])
    with pytest.raises(ValueError, match=message):
        ShownItems.of(items).image("a")


def test_one_id_for_each_picture():
    with pytest.raises(ValueError, match="1 id for 2 pictures: pass one id for each"):
        picture_frame(np.zeros((2, 3, 3)), ["a"])
    assert picture_frame(np.zeros((2, 3, 3)), ["a", "b"]).index.tolist() == ["a", "b"]


def test_numbers_are_no_texts():
    with pytest.raises(ValueError, match="items are not texts .*: pass a data frame with a row"):
        ShownItems.of(np.array([[1, 2], [3, 4]]))


def test_ids_twice():
    with pytest.raises(ValueError, match="items have two rows with the id 'a'"):
        ShownItems.of(pd.Series(["x", "y"], index=["a", "a"]))
