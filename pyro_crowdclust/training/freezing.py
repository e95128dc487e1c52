"""Parameters that are frozen, by ``requires_grad_(False)``, and stay so in parts built anew."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from torch import Tensor, nn


def frozen_names(tensors: Mapping[str, Tensor]) -> list[str]:
    """Names of the parameters of modules that are frozen.

    Examples
    --------
    >>> layer = nn.Linear(1, 1)
    >>> _ = layer.bias.requires_grad_(False)
    >>> frozen_names(dict(layer.named_parameters()))
    ['bias']
    """
    return [
        name
        for name, tensor in tensors.items()
        if isinstance(tensor, nn.Parameter) and not tensor.requires_grad
    ]


def freeze(tensors: Mapping[str, Tensor], names: Collection[str]) -> None:
    """Freeze the parameters with these names; others stay as they are."""
    for name in names:
        if isinstance(tensors.get(name), nn.Parameter):
            tensors[name].requires_grad_(False)


def freeze_like(part: nn.Module, before: nn.Module) -> None:
    """Freeze what was frozen in the part that this one replaces, with all of its rows.

    Examples
    --------
    >>> layer, larger = nn.Linear(1, 1), nn.Linear(1, 2)
    >>> _ = layer.requires_grad_(False)
    >>> freeze_like(larger, layer)
    >>> larger.weight.requires_grad
    False
    """
    freeze(dict(part.named_parameters()), frozen_names(dict(before.named_parameters())))
