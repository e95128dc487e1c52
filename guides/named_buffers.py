"""Named tensors that are saved and moved between devices with a guide."""

from __future__ import annotations

from collections.abc import Mapping

from torch import Tensor, nn


class NamedBuffers(nn.Module):
    """A group of buffers, such as one for every site.

    Parameters
    ----------
    tensors
        The tensors by name; ``set`` replaces tensors, not names.

    Examples
    --------
    >>> import torch
    >>> given = NamedBuffers({"looks": torch.zeros(2)})
    >>> given.set({"looks": torch.ones(2)})
    >>> given["looks"], [*given.state_dict()]
    (tensor([1., 1.]), ['looks'])
    """

    def __init__(self, tensors: Mapping[str, Tensor]) -> None:
        super().__init__()
        for name, tensor in tensors.items():
            self.register_buffer(name, tensor)

    def __getitem__(self, name: str) -> Tensor:
        return self.get_buffer(name)

    def by_name(self) -> dict[str, Tensor]:
        """The tensors themselves."""
        return dict(self.named_buffers(remove_duplicate=False))

    def set(self, tensors: Mapping[str, Tensor]) -> None:
        """Replace the tensors with these names."""
        for name, tensor in tensors.items():
            setattr(self, name, tensor)
