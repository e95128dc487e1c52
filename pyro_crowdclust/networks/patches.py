"""A network with one layer of filters, which are typical patches of the images."""

from __future__ import annotations

import math

import torch
from jaxtyping import Float
from torch import Tensor, nn

from pyro_crowdclust.files.parts import described

# Added to the variances of patches before they are whitened, and the number of rounds of k-means.
_MIN_VARIANCE = 0.1
_ROUNDS = 10
# c, t, and the number of parts of an image in each direction.
_MIN_CONTRAST, _THRESHOLD, _PARTS = 0.05, 0.25, 2
# Images in one pass on a CPU, where the responses of more do not fit in the cache, and on other
# devices, where fewer leave a GPU idle.
_IMAGES, _IMAGES_ELSEWHERE = 4, 256


@described
class PatchClassifier(nn.Module):
    """Logits of q(z | o), linear in the responses of patches to patterns; Coates and Ng 2011.

    Every patch p of R x R pixels is normalized, ``n(p) = (p - mean) / sqrt(variance + c^2)``. For
    every pattern f

        r_f(p) = <d_f, V (n(p) - m)>,   s_f = mean over p in a part of max(r_f - t, 0)

    and the same for -r_f, in each quarter of the image, with c = .05 in units of the features, and
    t = .25. The s_f are averaged over the image and its mirror image and standardized, and logits
    are linear in them. Patterns d_f are cluster centers of whitened patches (``learn_patterns``),
    so that only the linear map is trained.

    Parameters
    ----------
    image_shape
        Channels, height and width.
    num_outputs
        Number of outputs, K.
    num_patterns
        Number of patterns.
    size
        R, the size of a patch.
    stride
        Pixels from one patch to the next.

    Examples
    --------
    >>> import torch
    >>> network = PatchClassifier((3, 12, 12), 10, num_patterns=4)
    >>> network(torch.rand(5, 432)).shape
    torch.Size([5, 10])
    """

    patterns: Tensor
    offsets: Tensor
    location: Tensor
    scale: Tensor

    def __init__(
        self,
        image_shape: tuple[int, int, int],
        num_outputs: int,
        num_patterns: int = 400,
        size: int = 6,
        stride: int = 1,
    ) -> None:
        super().__init__()
        self.image_shape = image_shape
        self.size, self.stride = size, stride
        count = 2 * num_patterns * _PARTS**2
        self.register_buffer("patterns", torch.randn(num_patterns, image_shape[0] * size**2))
        self.register_buffer("offsets", torch.zeros(num_patterns))
        self.register_buffer("location", torch.zeros(count))
        self.register_buffer("scale", torch.ones(count))
        self.head = nn.Linear(count, num_outputs)

    def draw_parameters(self) -> None:
        """Draw the linear map; patterns are learned, not drawn."""
        self.head.reset_parameters()

    @torch.no_grad()
    def learn_patterns(
        self,
        images: Float[Tensor, "item feature"],
        generator: torch.Generator,
        num_patches: int = 40_000,
    ) -> None:
        """Learn patterns from random patches: whitening, then spherical k-means."""
        patches = self._normalized(self._some_patches(images, generator, num_patches))
        mean = patches.mean(0)
        values, vectors = torch.linalg.eigh(torch.cov(patches.mT))
        whitening = vectors @ torch.diag((values + _MIN_VARIANCE).rsqrt()) @ vectors.mT
        white = (patches - mean) @ whitening
        drawn = torch.randn(self.patterns.shape, generator=generator, dtype=white.dtype)
        centers = nn.functional.normalize(drawn.to(white), dim=1)
        for _ in range(_ROUNDS):
            nearness, nearest = (white @ centers.mT).max(1)
            # A pattern without any nearest patches is not changed.
            sums = 1e-3 * centers
            sums = sums.index_add(0, nearest, white * nearness.unsqueeze(1))
            centers = nn.functional.normalize(sums, dim=1)
        patterns = centers @ whitening
        self.patterns.copy_(patterns)
        self.offsets.copy_(patterns @ mean)

    def _some_patches(
        self, images: Tensor, generator: torch.Generator, count: int
    ) -> Float[Tensor, "patch entry"]:
        _, height, width = self.image_shape
        item, row, column = (
            torch.randint(limit, (count,), generator=generator)
            for limit in (len(images), height - self.size + 1, width - self.size + 1)
        )
        windows = images.unflatten(-1, self.image_shape)
        windows = windows.unfold(2, self.size, 1).unfold(3, self.size, 1)
        return windows[item, :, row, column].flatten(1)

    def _normalized(self, patches: Float[Tensor, "patch entry"]) -> Float[Tensor, "patch entry"]:
        centered = patches - patches.mean(1, keepdim=True)
        variance = centered.square().mean(1, keepdim=True)
        return centered / (variance + _MIN_CONTRAST**2).sqrt()

    def _responses(self, images: Float[Tensor, "item channel height width"]) -> Tensor:
        """Responses r of every patch, ``[item, pattern, row, column]``."""
        entries = self.patterns.shape[1]
        filters = self.patterns.unflatten(1, (-1, self.size, self.size))
        ones = torch.full_like(filters[:1], 1 / entries)
        convolved = nn.functional.conv2d(images, filters, stride=self.stride)
        mean = nn.functional.conv2d(images, ones, stride=self.stride)
        square = nn.functional.conv2d(images.square(), ones, stride=self.stride)
        spread = (square - mean.square()).clamp_min(0) + _MIN_CONTRAST**2
        sums = self.patterns.sum(1)[:, None, None]
        return (convolved - mean * sums) / spread.sqrt() - self.offsets[:, None, None]

    def _pooled(self, images: Float[Tensor, "item channel height width"]) -> Tensor:
        responses = self._responses(images)
        pooled = [
            nn.functional.adaptive_avg_pool2d(torch.relu(signed - _THRESHOLD), _PARTS)
            for signed in (responses, -responses)
        ]
        return torch.cat(pooled, 1).flatten(1)

    def pooled(self, images: Float[Tensor, "item feature"]) -> Float[Tensor, "item pooled"]:
        """Mean responses of the image and its mirror image, before they are standardized."""
        at_once = _IMAGES if images.device.type == "cpu" else _IMAGES_ELSEWHERE
        parts = images.unflatten(-1, self.image_shape).split(at_once)
        both = [(self._pooled(part) + self._pooled(part.flip(-1))) / 2 for part in parts]
        return torch.cat(both)

    @torch.no_grad()
    def standardize(self, pooled: Float[Tensor, "item pooled"]) -> None:
        """Set location and scale, by which these have mean 0 and a sum of squares of about one.

        Steps of Adam, which have the same length for all weights, then change logits by little.
        """
        self.location.copy_(pooled.mean(0))
        deviation = (pooled.std(0) + 0.1 * pooled.std(0).mean()).clamp_min(1e-12)
        self.scale.copy_(deviation * math.sqrt(pooled.shape[1]))

    def standardized(self, pooled: Float[Tensor, "item pooled"]) -> Tensor:
        """The input of the linear map."""
        return (pooled - self.location) / self.scale

    def forward(self, images: Float[Tensor, "item feature"]) -> Float[Tensor, "item output"]:
        """Logits of images, each a row of pixels."""
        return self.head(self.standardized(self.pooled(images)))
