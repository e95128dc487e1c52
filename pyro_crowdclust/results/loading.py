"""``load``: reading a saved result."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pandas as pd
import pyro
import torch
from torch import Tensor

from pyro_crowdclust.data.columns import Columns
from pyro_crowdclust.data.crowd_data import CrowdData
from pyro_crowdclust.files.allocation import limited_allocation
from pyro_crowdclust.files.checks import (
    check_count,
    check_kind,
    check_number,
    check_shape,
    check_tensors,
)
from pyro_crowdclust.files.description import build
from pyro_crowdclust.files.parts import part_class
from pyro_crowdclust.files.safetensors_file import UNREADABLE, read_file
from pyro_crowdclust.minibatches.making import full_batch
from pyro_crowdclust.results.chosen import Chosen
from pyro_crowdclust.results.cluster_doubt import ClusterDoubt
from pyro_crowdclust.results.fitted import Fitted
from pyro_crowdclust.results.further_training import FurtherTraining, UpdateStep, update_steps_of
from pyro_crowdclust.results.saved_data import data_fields, data_of
from pyro_crowdclust.results.stored_values import StoredValues
from pyro_crowdclust.training.argument_checks import check_callable
from pyro_crowdclust.training.copies import check_same_tensors, copied, named_tensors
from pyro_crowdclust.training.elbo import OF_RESULT, elbo_of_fields
from pyro_crowdclust.training.fingerprint import digest
from pyro_crowdclust.training.freezing import freeze
from pyro_crowdclust.training.isolation import isolated
from pyro_crowdclust.training.site_checks import check_sites


def load(
    path: str | os.PathLike,
    model: Callable[..., Any] | None = None,
    guide: Callable[..., Any] | None = None,
    data: CrowdData | None = None,
    *,
    device: str | torch.device | None = None,
) -> Fitted:
    """The result that was written by ``Fitted.save``.

    It has the same assignments and probabilities, predictions, tables of workers and clusters, ELBO
    and history. Features are not in the file, so ``load(path).data`` has none, unless ``data`` is
    given. With ``data``, or if the fit had no features, the result can be updated. Loading executes
    no code from the file, which contains numbers, texts, and names of classes of this library.

    Parameters
    ----------
    path
        The file.
    model, guide
        Built as for the fit; they are copied, not changed. Not needed if both consist of the
        library's own parts, which the file describes.
    data
        The data of the fit; needed for an autoguide and for a guide with ``pyro.param``, which
        create their parameters when they first see a batch.
    device
        Where to compute; default: the processor.

    Raises
    ------
    ValueError
        If the file is not a result, is damaged or has a newer format; if it needs ``model`` and
        ``guide``, or those given have other parameters; if ``data`` are not those of the fit.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> import torch
    >>> from pyro_crowdclust import cluster, load
    >>> from pyro_crowdclust.mixture import GaussianComponents
    >>> x = torch.cat([torch.randn(50, 2) - 4, torch.randn(50, 2) + 4])
    >>> result = cluster(x, components=GaussianComponents, num_clusters=2, progress=False)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     result.save(Path(folder) / "blobs.safetensors")
    ...     loaded = load(Path(folder) / "blobs.safetensors")
    >>> bool((loaded.predict(x) == result.predict(x)).all())
    True
    """
    content = read_file(path, "result")
    try:
        known = _checked(content)
        train_on = _train_on(content)
    except UNREADABLE as error:
        what = f"it lacks {error}" if isinstance(error, KeyError) else error
        raise ValueError(f"{path} is damaged ({what}): get a whole copy of it") from error
    return _result(path, content, known, model, guide, data, device, train_on)


def _checked(content: Any) -> CrowdData:
    """The data in a file, after a check of the types and sizes of its content."""
    check_kind("its content", content, dict)
    data = data_of(content["data"])
    if content["structure"] is not None:
        check_kind("structure.text", content["structure"]["text"], str)
        check_tensors("structure.tensors", content["structure"]["tensors"])
    check_tensors("parameters", content["parameters"])
    for name in check_kind("frozen", content.get("frozen", []), list):
        check_kind("a name in frozen", name, str)
    if content["feature_shape"] is not None:
        for length in check_kind("feature_shape", content["feature_shape"], tuple):
            check_count("a length in feature_shape", length)
    if content["probabilities"] is not None:
        probabilities = check_shape(
            "probabilities", content["probabilities"], torch.float64, (data.num_items, None)
        )
        if not bool(((probabilities >= 0) & (probabilities <= 1 + 1e-6)).all()):
            raise ValueError("probabilities lie outside of [0, 1]")
        _check_doubt(content.get("doubt"), probabilities.shape[1])
    if content["latent_means"] is not None:
        latent = check_kind("latent_means", content["latent_means"], Tensor)
        check_shape("latent_means", latent, latent.dtype, (data.num_items, None))
    check_number("elbo", content["elbo"])
    check_number("seconds", content["seconds"])
    for name in ("stop_reason", "reason"):
        check_kind(name, content[name], str)
    bound = check_kind("elbo_objective", content["elbo_objective"], dict)
    check_kind("elbo_objective.kind", bound["kind"], str)
    if len(bound) > 1:  # the bound can be made again
        check_count("elbo_objective.num_particles", bound["num_particles"], most=10**6)
        check_number("elbo_objective.max_plate_nesting", bound["max_plate_nesting"])
        check_kind("elbo_objective.vectorize_particles", bound["vectorize_particles"], bool)
        check_number("elbo_objective.tail_adaptive_beta", bound["tail_adaptive_beta"])
    check_count("seed", abs(check_kind("seed", content["seed"], int)), most=2**63 - 1)
    check_kind("dtype", content["dtype"], torch.dtype)
    if content.get("train_on") is not None:
        check_kind("train_on", content["train_on"], str)
        check_tensors("train_on_tensors", content.get("train_on_tensors", {}))
    _check_table("history", content["history"])
    if content.get("workers") is not None:
        _check_table("workers", content["workers"], data.num_workers)
    return data


def _check_table(table: str, columns: Any, num_rows: int | None = None) -> None:
    for name, column in check_kind(table, columns, dict).items():
        check_kind(f"{table}.{name}.dtype", column["dtype"], str)
        values = check_kind(f"{table}.{name}.values", column["values"], list)
        if num_rows is not None and len(values) != num_rows:
            raise ValueError(f"{table}.{name} has {len(values)} rows, and not {num_rows}")


def _check_doubt(fields: Any, number: int) -> None:
    if fields is not None:
        tensors = check_tensors("doubt", fields)
        for name, shape in (("together", (number, number)), ("whole", (number,))):
            check_shape(f"doubt.{name}", tensors[name], torch.float64, shape)


def _result(
    path: str | os.PathLike,
    content: dict[str, Any],
    known: CrowdData,
    model: Callable[..., Any] | None,
    guide: Callable[..., Any] | None,
    data: CrowdData | None,
    device: Any,
    train_on: Callable[..., Fitted] | None,
) -> Fitted:
    if data is not None:
        data = _as_in_fit(data, known)
        _check_data(data, known, content["feature_shape"])
    with isolated(content["seed"]) as (_, store):
        model, guide = _model_and_guide(path, content, model, guide, data)
        _set_parameters(path, model, guide, content, device)
        elbo = elbo_of_fields(content["elbo_objective"])
        options: Any = train_on
        if getattr(options, "elbo", None) == OF_RESULT:
            options = replace(options, elbo=elbo)
        result = Fitted(
            model=model,
            guide=guide,
            data=known if data is None else data,
            history=_table(content["history"]),
            stop_reason=content["stop_reason"],
            seconds=content["seconds"],
            seed=content["seed"],
            elbo_objective=elbo,
            parameter_store=store,
            dtype=content["dtype"],
            device=device,
            feature_shape=content["feature_shape"],
            chosen=_chosen(content.get("chosen")),
            doubt=_doubt(content.get("doubt")),
            train_on=options,
        )
    result.use_stored(_stored_values(content, known))
    return result


def _stored_values(content: dict[str, Any], known: CrowdData) -> StoredValues:
    has_items = content["probabilities"] is not None
    workers = content.get("workers")  # older files have none
    if workers is not None:
        workers = _table(workers).set_index(known.worker_ids.rename("worker"))
    return StoredValues(
        elbo=content["elbo"],
        items=(content["probabilities"], content["latent_means"]) if has_items else None,
        cluster_order=content["cluster_order"],
        workers=workers,
    )


def _train_on(content: dict[str, Any]) -> Callable[..., Fitted] | None:
    """Function that continues the fit with the options in the file; None if it has none."""
    text, tensors = content.get("train_on"), content.get("train_on_tensors", {})
    if text is None:
        return None
    description = json.loads(text)
    name = description["$part"]["class"]
    if not issubclass(part_class(name), FurtherTraining):
        raise ValueError(f"{name!r} is not a function that trains a model")
    num_bytes = sum(tensor.nbytes for tensor in tensors.values())
    with limited_allocation(num_bytes + len(text)):
        train_on = build(description, tensors)
    for step in update_steps_of(train_on):
        if not isinstance(step, UpdateStep):
            raise ValueError(f"{type(step).__name__} is not a step of an update")
    return train_on


def _table(columns: dict[str, Any]) -> pd.DataFrame:
    return pd.DataFrame(
        {name: pd.Series(part["values"], dtype=part["dtype"]) for name, part in columns.items()}
    )


def _chosen(fields: dict[str, Any] | None) -> Chosen | None:
    return None if fields is None else Chosen(**fields | {"table": _table(fields["table"])})


def _doubt(fields: dict[str, Tensor] | None) -> ClusterDoubt | None:
    return None if fields is None else ClusterDoubt(**fields)


def _as_in_fit(data: CrowdData, known: CrowdData) -> CrowdData:
    """The data in the form in which they were fitted.

    The first calls (``cluster`` and others) may convert data: pairs on sorted pages to pages; pages
    that share no items, or are uninformative, to pairs; features of records to likeness of pairs;
    and counts to real numbers.
    """
    if not isinstance(data, CrowdData):
        return data
    if data.is_sorted and digest(data.answers) != digest(known.answers):
        data = data.as_placements()  # the order of pairs may be another
    if known.answers is not None and data.placements is not None:
        data = data.as_pairs()
    if data.columns is not None and known.columns is not None:
        data = data.with_parts(columns=_as_real(data.columns, known.columns))
    if known.likeness is not None and data.likeness is None:
        data = data.with_parts(likeness=known.likeness, likeness_names=known.likeness_names)
    return data


def _as_real(given: Columns, known: Columns) -> Columns:
    """Columns in which those of numbers are real if they were real in the fit."""
    if len(given) != len(known):
        return given
    kinds = [
        "real" if in_fit == "real" and levels is None else kind
        for kind, levels, in_fit in zip(given.kinds, given.levels, known.kinds, strict=True)
    ]
    return replace(given, kinds=tuple(kinds))


def _check_data(data: CrowdData, known: CrowdData, shape: tuple[int, ...] | None) -> None:
    if not isinstance(data, CrowdData):
        of_fit = {
            "pairs": known.answers,
            "placements": known.placements,
            "labels": known.class_labels,
            "known": known.known,
        }
        tables = [f"{name}={name}" for name, part in of_fit.items() if part is not None]
        made = ", ".join(["None" if shape is None else "features", *tables])
        raise ValueError(
            f"data is a {type(data).__name__}, but must be the CrowdData of the fit: pass "
            f"data=CrowdData({made}), made of the same tables as for the fit"
        )
    given = None if data.features is None else tuple(data.features.shape[1:])
    if given != shape or digest(data_fields(data)) != digest(data_fields(known)):
        raise ValueError(
            "the data are not those of the fit: items, answers or the shape of the features "
            "differ; pass the same CrowdData as for the fit"
        )


def _model_and_guide(
    path: str | os.PathLike,
    content: dict[str, Any],
    model: Callable[..., Any] | None,
    guide: Callable[..., Any] | None,
    data: CrowdData | None,
) -> tuple[Callable, Callable]:
    """Copies of model and guide if they are given; otherwise those that the file describes."""
    if model is None and guide is None:
        return _built(path, content)
    if model is None or guide is None:
        raise ValueError("only one of model and guide is given: give load both, or neither")
    check_callable(model, guide)
    model, guide = copied(model, guide)
    if data is not None:
        # Autoguides create their parameters at the first call.
        check_sites(model, guide, full_batch(data).to(None, content["dtype"]))
    return model, guide


def _built(path: str | os.PathLike, content: dict[str, Any]) -> tuple[Callable, Callable]:
    remedy = f"pass them as they were for the fit: load({str(path)!r}, model, guide)"
    structure = content["structure"]
    if structure is None:
        raise ValueError(
            f"the file does not describe how model and guide are built ({content['reason']}): "
            f"{remedy}"
        )
    num_bytes = sum(tensor.nbytes for tensor in content["parameters"].values())
    try:
        with limited_allocation(num_bytes + len(structure["text"])):
            model, guide = build(json.loads(structure["text"]), structure["tensors"])
    except UNREADABLE as error:
        raise ValueError(f"model and guide cannot be built here ({error}): {remedy}") from error
    return model, guide


def _set_parameters(
    path: str | os.PathLike, model: Any, guide: Any, content: dict[str, Any], device: Any
) -> None:
    values: dict[str, Tensor] = content["parameters"]
    needed = named_tensors(model, guide, dict(pyro.get_param_store().named_parameters()))
    try:
        check_same_tensors(values, needed)
    except ValueError as error:
        raise ValueError(
            f"{path} belongs to another model or guide: {error}. Build both as for the fit; for "
            "an autoguide or a guide with pyro.param also pass data="
        ) from error
    for name, tensor in needed.items():
        tensor.data = values[name].to(device)
    freeze(needed, content.get("frozen", []))
