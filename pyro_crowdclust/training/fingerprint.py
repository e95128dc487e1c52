"""Fingerprints of data and settings, to check that a checkpoint is of the same fit."""

from __future__ import annotations

import dataclasses
import functools
import hashlib
import json
from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
import torch
from torch import Tensor

from pyro_crowdclust.data.crowd_data import CrowdData
from pyro_crowdclust.files.description import NotDescribable, describe

# The digest of larger data uses this many evenly spaced rows of the features.
_ROWS = 65_536


def canonical_text(value: Any) -> str:
    """A description of ``value`` as text: equal for equal parts of the library and plain values.

    For functions, and objects of classes outside the library, it is the name.

    Examples
    --------
    >>> from pyro_crowdclust.minibatches import AnswerSampling
    >>> canonical_text(0.5), canonical_text(len)
    ('0.5', 'builtins.len')
    >>> canonical_text(AnswerSampling(9)) == canonical_text(AnswerSampling(9))
    True
    """
    if isinstance(value, functools.partial):
        return f"{canonical_text(value.func)} {canonical_text([list(value.args), value.keywords])}"
    tensors: dict[str, Tensor] = {}
    try:
        text = json.dumps(describe(value, tensors))
    except NotDescribable:
        named = _kind(value)
        return f"{named.__module__}.{named.__qualname__}"
    return text + (f" {digest(tensors)}" if tensors else "")


def fingerprint_of(
    data: CrowdData, callbacks: Sequence[Any], settings: dict[str, Any]
) -> dict[str, str]:
    """Texts that must be the same for a fit to resume from a checkpoint."""
    # The state of callbacks changes in training, so that only their kinds can be compared.
    kinds = [_kind(part) for part in callbacks]
    texts = {name: canonical_text(value) for name, value in settings.items()}
    return {"data": data_digest(data), "callbacks": ", ".join(map(canonical_text, kinds)), **texts}


def _kind(part: Any) -> Any:
    """A function or class itself; the class of anything else."""
    return part if hasattr(part, "__qualname__") else type(part)


def data_digest(data: CrowdData) -> str:
    """SHA-256 of all answers and ids, and of the features of up to 65,536 evenly spaced items."""
    parts = {field.name: getattr(data, field.name) for field in dataclasses.fields(data)}
    features = parts.pop("features")
    if features is not None:
        step = -(-data.num_items // _ROWS)
        parts["features"] = [list(features.shape), str(features.dtype), features[::step]]
    return digest(parts)


def digest(value: Any) -> str:
    """SHA-256 of a tree of plain values, arrays, indexes and records of them."""
    hashed = hashlib.sha256()
    _feed(hashed, value)
    return hashed.hexdigest()


def _feed(digest: Any, value: Any) -> None:
    if isinstance(value, Tensor):
        value = value.detach().cpu().contiguous()
        _feed(digest, f"{value.dtype} {list(value.shape)}")
        digest.update(value.reshape(-1).view(torch.uint8).numpy())
    elif isinstance(value, np.ndarray) and value.dtype != object:
        _feed(digest, f"{value.dtype.str} {list(value.shape)}")
        digest.update(np.ascontiguousarray(value).reshape(-1).view(np.uint8))
    elif isinstance(value, np.ndarray | pd.Index):
        values = np.asarray(value, dtype=object)
        if any(isinstance(one, tuple) for one in values):
            # Pandas refuses mixtures of tuples and numbers, and files turn NumPy's scalars into
            # plain ones.
            values = np.array([repr(_plain(one)) for one in values], dtype=object)
        _feed(digest, [len(value), pd.util.hash_array(values, categorize=False)])
    elif isinstance(value, dict):
        _feed(digest, list(value.items()))
    elif isinstance(value, list | tuple):
        digest.update(f"{len(value)} parts;".encode())
        for part in value:
            _feed(digest, part)
    elif dataclasses.is_dataclass(value):
        _feed(digest, {f.name: getattr(value, f.name) for f in dataclasses.fields(value)})
    else:
        digest.update(f"{value!r};".encode())


def _plain(one: Any) -> Any:
    """An id with NumPy's scalars converted to plain ones."""
    if isinstance(one, tuple):
        return tuple(map(_plain, one))
    return one.item() if isinstance(one, np.generic) else one
