"""``load``: a result as it was when it was saved."""

from __future__ import annotations

import dataclasses
import json
import os
from collections.abc import Callable
from typing import Any

import pandas as pd
import pyro
import torch
from torch import Tensor

from pyro_crowdclust.data.crowd_data import CrowdData
from pyro_crowdclust.files.description import build
from pyro_crowdclust.files.safetensors_file import read_file
from pyro_crowdclust.minibatches.batch import full_batch
from pyro_crowdclust.results.fitted import Fitted
from pyro_crowdclust.results.saving import data_fields
from pyro_crowdclust.training.checks import check_callable, check_sites
from pyro_crowdclust.training.copies import check_same_tensors, copied, named_tensors
from pyro_crowdclust.training.elbo import elbo_of_fields
from pyro_crowdclust.training.fingerprint import digest
from pyro_crowdclust.training.isolation import isolated


def load(
    path: str | os.PathLike,
    model: Callable[..., Any] | None = None,
    guide: Callable[..., Any] | None = None,
    data: CrowdData | None = None,
    *,
    device: str | torch.device | None = None,
) -> Fitted:
    """The result that ``Fitted.save`` wrote.

    Everything that was read from the result is the same: assignments and probabilities,
    predictions, tables of workers and clusters, ELBO and history. Features are not in the file, so
    ``load(path).data`` has none, unless ``data`` is given. Loading runs nothing from the file: it
    holds numbers, texts, and names of classes of this library.

    Parameters
    ----------
    path
        The file.
    model, guide
        Built as they were for the fit; they are copied and left as they are. Not needed where both
        are made of the library's own parts, which the file describes.
    data
        What was learned from; needed for an autoguide and for a guide with ``pyro.param``, which
        make their parameters when they first see a batch.
    device
        Where to compute; default: the processor.

    Raises
    ------
    ValueError
        If the file is none of a result, damaged or of a newer format; if it needs ``model`` and
        ``guide``, or those given have other parameters; if ``data`` are other data.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> import torch
    >>> from pyro_crowdclust import CrowdData, fit, load
    >>> from pyro_crowdclust.emissions import Identity
    >>> from pyro_crowdclust.guides import MessagePassingGuide
    >>> from pyro_crowdclust.mixture import (
    ...     DirichletWeights,
    ...     GaussianComponents,
    ... )
    >>> from pyro_crowdclust.models import SemiCrowdsourcedMixture
    >>> x = torch.cat([torch.randn(50, 2) - 4, torch.randn(50, 2) + 4])
    >>> model = SemiCrowdsourcedMixture(DirichletWeights(2), GaussianComponents(2, 2), Identity())
    >>> result = fit(model, MessagePassingGuide(model), CrowdData(x), epochs=1, progress=False)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     result.save(Path(folder) / "blobs.safetensors")
    ...     loaded = load(Path(folder) / "blobs.safetensors")
    >>> bool((loaded.predict(x) == result.predict(x)).all())
    True
    """
    content = read_file(path, "result")
    try:
        return _result(path, content, model, guide, data, device)
    except (KeyError, TypeError, AttributeError) as error:
        raise ValueError(f"{path} is damaged: it lacks {error}") from error


def _result(
    path: str | os.PathLike,
    content: dict[str, Any],
    model: Callable[..., Any] | None,
    guide: Callable[..., Any] | None,
    data: CrowdData | None,
    device: Any,
) -> Fitted:
    known = _data_without_features(content["data"])
    if data is not None:
        _check_data(data, known, content["feature_shape"])
    with isolated(content["seed"]) as (_, store):
        if model is None and guide is None:
            model, guide = _built(path, content)
        elif model is None or guide is None:
            raise ValueError("load takes model and guide, both or neither")
        else:
            check_callable(model, guide)
            model, guide = copied(model, guide)
            if data is not None:
                # Autoguides create their parameters at the first call.
                check_sites(model, guide, full_batch(data).to(None, content["dtype"]))
        _set_parameters(path, model, guide, content["parameters"], device)
        result = Fitted(
            model=model,
            guide=guide,
            data=known if data is None else data,
            history=pd.DataFrame(
                {
                    name: pd.Series(column["values"], dtype=column["dtype"])
                    for name, column in content["history"].items()
                }
            ),
            stop_reason=content["stop_reason"],
            seconds=content["seconds"],
            seed=content["seed"],
            elbo_objective=elbo_of_fields(content["elbo_objective"]),
            parameter_store=store,
            dtype=content["dtype"],
            device=device,
            feature_shape=content["feature_shape"],
        )
    # What the result would compute from the features, it is told.
    result.__dict__["elbo"] = content["elbo"]
    if content["probabilities"] is not None:
        result.__dict__["_training_items"] = content["probabilities"], content["latent_means"]
    return result


def _data_without_features(fields: dict[str, Any]) -> CrowdData:
    names = {field.name for field in dataclasses.fields(CrowdData)}
    data = object.__new__(CrowdData)
    data.__dict__.update(dict.fromkeys(names), **{name: fields[name] for name in names & {*fields}})
    return data


def _check_data(data: CrowdData, known: CrowdData, shape: tuple[int, ...] | None) -> None:
    if not isinstance(data, CrowdData):
        raise ValueError(f"data is a {type(data).__name__}, but must be the CrowdData of the fit")
    given = None if data.features is None else tuple(data.features.shape[1:])
    if given != shape or digest(data_fields(data)) != digest(data_fields(known)):
        raise ValueError(
            "the data are not those of the fit: items, answers or the shape of the features differ"
        )


def _built(path: str | os.PathLike, content: dict[str, Any]) -> tuple[Callable, Callable]:
    remedy = f"pass them as they were for the fit: load({str(path)!r}, model, guide)"
    structure = content["structure"]
    if structure is None:
        raise ValueError(
            f"the file cannot tell how model and guide are built ({content['reason']}): {remedy}"
        )
    try:
        model, guide = build(json.loads(structure["text"]), structure["tensors"])
    except (ValueError, TypeError, LookupError, RuntimeError, MemoryError) as error:
        raise ValueError(f"model and guide cannot be built here ({error}): {remedy}") from error
    return model, guide


def _set_parameters(
    path: str | os.PathLike, model: Any, guide: Any, values: dict[str, Tensor], device: Any
) -> None:
    needed = named_tensors(model, guide, dict(pyro.get_param_store().named_parameters()))
    try:
        check_same_tensors(values, needed)
    except ValueError as error:
        raise ValueError(
            f"{path} is of another model or guide: {error}. Build both as they were for the fit; "
            "for an autoguide or a guide with pyro.param pass data=, too"
        ) from error
    for name, tensor in needed.items():
        tensor.data = values[name].to(device)
