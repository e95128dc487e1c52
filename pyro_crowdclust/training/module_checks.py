"""A check that all networks that model and guide call are trained."""

from __future__ import annotations

import traceback
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import pyro
from torch import nn
from torch.nn.modules.module import register_module_forward_pre_hook

from pyro_crowdclust.errors import place_in_users_code
from pyro_crowdclust.protocols import roots_of


@contextmanager
def called_modules() -> Iterator[Mapping[nn.Module, str | None]]:
    """Collect the modules with parameters that are called within the block.

    Each comes with the place of its first call in the user's code. The dictionary is empty until
    then.
    """
    found: dict[nn.Module, str | None] = {}

    def record(module: nn.Module, args: Any) -> None:
        if module not in found and next(module.parameters(recurse=False), None) is not None:
            # walk_stack begins with the innermost frame.
            found[module] = place_in_users_code(reversed(list(traceback.walk_stack(None))))

    with register_module_forward_pre_hook(record):
        yield found


def check_trained(called: Mapping[nn.Module, str | None], *parts: Any) -> None:
    """Raise a ``ValueError`` if a called module has parameters that a fit would not train.

    A fit trains the modules that are part of the model or the guide, and the parameters in Pyro's
    store.
    """
    known = {id(one) for root in roots_of(*parts) for one in root.parameters()}
    known |= {id(one) for _, one in pyro.get_param_store().named_parameters()}
    for module, place in called.items():
        own = module.parameters(recurse=False)
        if any(one.requires_grad and id(one) not in known for one in own):
            where = "" if place is None else f" (in {place})"
            raise ValueError(
                f"a {type(module).__name__} is called{where} that is no part of the model or the "
                "guide, so that fit would not train it. A function or functools.partial does not "
                "make its networks part of a model: write an emission, or any other part with a "
                "network, as a subclass of nn.Module that holds the network as an attribute. If "
                "the network should stay as it is, call its requires_grad_(False)"
            )
