"""Random views of images against scipy's interpolation at the mapped positions."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from scipy.ndimage import map_coordinates

from pyro_crowdclust.networks import RandomAffine, RandomPhoto, ViewOrItself

SHAPE = (2, 6, 9)
COUNT = 4


def images() -> torch.Tensor:
    return torch.rand(COUNT, math.prod(SHAPE), generator=torch.Generator().manual_seed(0)).double()


def test_a_view_reads_the_image_at_mapped_positions():
    view = RandomAffine(SHAPE, degrees=20.0, stretch=0.2, slant=0.3, shift=1.5)
    amounts = 2 * torch.rand(COUNT, 6, dtype=torch.float64) - 1
    viewed = view(images(), amounts).view(COUNT, *SHAPE)
    _, height, width = SHAPE
    rows, columns = np.mgrid[:height, :width]
    x, y = columns - (width - 1) / 2, rows - (height - 1) / 2
    for i, image in enumerate(images().view(COUNT, *SHAPE).numpy()):
        turn, across, down, slant, right, below = amounts[i].tolist()
        angle, across, down = math.radians(20 * turn), 1 + 0.2 * across, 1 + 0.2 * down
        from_x = across * math.cos(angle) * x + (0.3 * slant - down * math.sin(angle)) * y
        from_y = across * math.sin(angle) * x + down * math.cos(angle) * y
        where = [
            from_y + 1.5 * below + (height - 1) / 2,
            from_x + 1.5 * right + (width - 1) / 2,
        ]
        for channel, plane in enumerate(image):
            expected = map_coordinates(plane, where, order=1, mode="grid-constant")
            np.testing.assert_allclose(viewed[i, channel], expected, atol=1e-12)


@pytest.mark.parametrize("view", [RandomAffine, RandomPhoto], ids=lambda view: view.__name__)
@pytest.mark.parametrize(
    ("shape", "remedy"),
    [((6, 9, 2), "and bring the channels first"), ((2, 9, 6), ""), ((6, 9), ""), ((54,), "")],
    ids=str,
)
def test_images_of_another_shape_are_refused(view, shape, remedy):
    """Channels last, turned by a quarter, without colours, and rows of too few numbers."""
    said = (
        rf"of the shape \[2, 6, 9\] .* but an item has features .*make a view of their .*{remedy}"
    )
    with pytest.raises(ValueError, match=said):
        view(SHAPE)(torch.rand(COUNT, *shape), torch.zeros(COUNT, view.num_random))


def test_views_differ_and_stay_within_the_pixels():
    same, view = images()[:1].expand(COUNT, -1), RandomAffine(SHAPE)
    viewed = view(same, 2 * torch.rand(COUNT, view.num_random) - 1)
    assert len(viewed.unique(dim=0)) == COUNT
    assert viewed.min() >= 0
    assert viewed.max() <= same.max() + 1e-12


@pytest.mark.parametrize("shape", [(COUNT, math.prod(SHAPE)), (COUNT, *SHAPE)])
def test_a_view_has_the_shape_and_precision_of_the_features(shape):
    features = images().float().view(shape)
    viewed = RandomAffine(SHAPE)(features, torch.rand(COUNT, RandomAffine.num_random))
    assert viewed.shape == shape
    assert viewed.dtype == torch.float32


def test_a_photo_is_moved_mirrored_lit_and_hidden_as_written():
    view = RandomPhoto(SHAPE, degrees=9.0, stretch=0.1, shift=1.0, light=0.4, hidden=3.0)
    amounts = 2 * torch.rand(COUNT, 12, dtype=torch.float64) - 1
    amounts[:, 6] = torch.tensor([0.5, -0.5, 0.1, -0.9])  # the first and the third are mirrored
    amounts[:, 10:] = torch.tensor([[-0.8, 0.7], [0.8, -0.7], [0.1, 0.2], [0.9, 0.0]])
    viewed = view(images(), amounts).view(COUNT, *SHAPE).numpy()
    moved = RandomAffine(SHAPE, 9.0, 0.1, 0.0, 1.0)(images(), amounts[:, :6])
    for i, image in enumerate(moved.view(COUNT, *SHAPE).numpy()):
        _, contrast, saturation, brightness, down, across = amounts[i, 6:].tolist()
        image = image[:, :, ::-1] if i in (0, 2) else image
        gray = image.mean(0)
        colored = gray + (1 + 0.4 * saturation) * (image - gray)
        mean = image.mean()
        expected = mean + (1 + 0.4 * contrast) * (colored - mean) + 0.4 * brightness
        for row in range(6):
            for column in range(9):
                near = abs(row - 2.5 - 3 * down) < 1.5 and abs(column - 4 - 4.5 * across) < 1.5
                pixel = 0.0 if near else expected[:, row, column]
                np.testing.assert_allclose(viewed[i, :, row, column], pixel, atol=1e-12)


@pytest.mark.parametrize("shape", [(COUNT, math.prod(SHAPE)), (COUNT, *SHAPE)])
def test_a_photo_has_the_shape_and_precision_of_the_features(shape):
    viewed = RandomPhoto(SHAPE)(images().float().view(shape), torch.rand(COUNT, 12))
    assert viewed.shape == shape
    assert viewed.dtype == torch.float32


def test_a_photo_without_changes_is_itself_but_for_the_square():
    view = RandomPhoto(SHAPE, hidden=0.0)
    torch.testing.assert_close(view(images(), torch.zeros(COUNT, view.num_random)), images())


@pytest.mark.parametrize("shape", [(COUNT, math.prod(SHAPE)), (COUNT, *SHAPE)])
def test_items_are_seen_themselves_or_in_a_view(shape):
    features, view = images().view(shape), RandomAffine(SHAPE)
    both = ViewOrItself(view)
    amounts = 2 * torch.rand(COUNT, both.num_random, dtype=torch.float64) - 1
    amounts[:, -1] = torch.tensor([0.3, -0.2, -0.9, 0.1])
    seen, viewed = both(features, amounts), view(features, amounts[:, :-1])
    assert torch.equal(seen[[0, 3]], viewed[[0, 3]])
    assert torch.equal(seen[[1, 2]], features[[1, 2]])
    assert not torch.equal(viewed[[1, 2]], features[[1, 2]])
