"""Copies of a user's model and guide, and of the tensors that training changes in them."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from itertools import chain
from typing import Any

import pyro
import torch
from pyro.infer.autoguide.guides import AutoGuide
from torch import Tensor, nn

from pyro_crowdclust.protocols import module_of
from pyro_crowdclust.training.isolation import share_store


def copied(model: Callable[..., Any], guide: Callable[..., Any]) -> tuple[Callable, Callable]:
    """Copies of both, which training can change without changing the originals.

    Copies of a result's model and guide use the parameter store of the process, in which they are
    then trained.

    ``copy.deepcopy`` makes a Pyro autoguide forget its model, and the list that it is part of, in
    the original as well as in the copy; this function restores them in both.
    """
    autoguides = _autoguides(guide)
    known = [(autoguide._model, autoguide.master) for autoguide in autoguides]
    # One copy of all of it, so that the copied guide holds the copied model.
    models = [of_autoguide for of_autoguide, _ in known]
    new_model, new_guide, new_models = copy.deepcopy((model, guide, models))
    for autoguide, (of_autoguide, master) in zip(autoguides, known, strict=True):
        autoguide._model, autoguide.master = of_autoguide, master
    for autoguide, of_autoguide in zip(_autoguides(new_guide), new_models, strict=True):
        autoguide._model = of_autoguide
    share_store(new_model, new_guide)
    return new_model, new_guide


def _autoguides(guide: Callable[..., Any]) -> list[AutoGuide]:
    root = module_of(guide)
    modules = [] if root is None else root.modules()
    return [module for module in modules if isinstance(module, AutoGuide)]


@torch.no_grad()
def own_parameters() -> None:
    """Copy the parameters in Pyro's store to separate memory.

    A parameter begins as the very tensor that an autoguide's ``init_loc_fn`` returned, or that
    ``pyro.param`` was given, so that training would change the user's tensor.
    """
    store = pyro.get_param_store()
    state = store.get_state()
    for name, parameter in state["params"].items():
        if isinstance(parameter, nn.Parameter):  # of a module, which has it, too
            parameter.data = parameter.data.clone()
        else:
            state["params"][name] = parameter.detach().clone().requires_grad_()
    store.clear()
    store.set_state(state)


def named_tensors(
    model: Callable[..., Any], guide: Callable[..., Any], store: Mapping[str, Tensor]
) -> dict[str, Tensor]:
    """Everything that training may change: parameters and buffers, each once, by name.

    A guide that holds its model shares the model's tensors, which have one name; ``store`` holds
    the unconstrained parameters of Pyro's store.
    """
    named: dict[str, Tensor] = {}
    for role, part in (("model", model), ("guide", guide)):
        root = module_of(part)
        if root is not None:
            both = chain(root.named_parameters(), root.named_buffers())
            named |= {f"{role}.{name}": tensor for name, tensor in both}
    named |= {f"store.{name}": tensor for name, tensor in store.items()}
    first_name = {id(tensor): name for name, tensor in reversed(named.items())}
    return {name: tensor for name, tensor in named.items() if first_name[id(tensor)] == name}


@torch.no_grad()
def copied_into(old: Tensor | None, new: Tensor) -> Tensor:
    """A copy of ``new``, in the memory of ``old`` if shape, dtype and device are the same."""
    if old is None or (old.shape, old.dtype, old.device) != (new.shape, new.dtype, new.device):
        return new.detach().clone()
    return old.copy_(new)


def check_same_tensors(found: Mapping[str, Tensor], needed: Mapping[str, Tensor]) -> None:
    """Raise a ``ValueError`` unless both have the same names, with the same shapes."""
    missing = [*(needed.keys() - found.keys()), *(found.keys() - needed.keys())]
    if missing:
        name = min(missing)
        raise ValueError(
            f"{name} is {'not in the file' if name in needed else 'only in the file'} "
            f"({len(missing)} such parameters)"
        )
    for name, tensor in needed.items():
        if found[name].shape != tensor.shape:
            raise ValueError(
                f"{name} has shape {list(found[name].shape)} in the file, but {list(tensor.shape)} "
                "here"
            )
        if found[name].is_floating_point() != tensor.is_floating_point():
            raise ValueError(f"{name} is {found[name].dtype} in the file, but {tensor.dtype} here")
