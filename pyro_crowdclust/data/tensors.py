"""Tensors that users pass, as arrays of numbers."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor


def numbers_of(tensor: Tensor, name: str) -> np.ndarray:
    """The numbers of a tensor as an array, from any device and without gradients.

    Raises
    ------
    ValueError
        If they are not dense real numbers.
    """
    if not is_dense(tensor):
        raise ValueError(
            f"{name}: a tensor that is {what_it_is(tensor)} does not hold plain numbers; pass "
            ".to_dense() or .dequantize() of it, or an array"
        )
    tensor = tensor.detach().cpu()
    # NumPy has no bfloat16; float32 holds every bfloat16 number exactly.
    return (tensor.float() if tensor.dtype == torch.bfloat16 else tensor).numpy()


def is_dense(tensor: Tensor) -> bool:
    """Whether a tensor is dense, real and in memory."""
    return (
        tensor.layout == torch.strided
        and not tensor.is_nested
        and not (tensor.is_complex() or tensor.is_quantized or tensor.is_meta)
    )


def what_it_is(tensor: Tensor) -> str:
    """In a word, why a tensor is not dense real numbers."""
    if tensor.is_nested:
        return "nested"
    if tensor.is_meta:
        return "without numbers (meta)"
    if tensor.layout != torch.strided:
        return "sparse"
    return "complex" if tensor.is_complex() else "quantized"
