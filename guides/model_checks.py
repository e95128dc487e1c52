"""Whether a model is one that a guide is for."""

from __future__ import annotations

from typing import Any

from torch import nn

from pyro_crowdclust.errors import check_suits


def check_model(guide: nn.Module, suited: str, model: Any, *needs: str) -> None:
    """Raise a ``ValueError`` unless the model has the attributes that the guide needs."""
    check_suits(
        type(guide).__name__,
        f"a {suited}",
        model,
        needs,
        "use the guide that the page of the model names, in docs/models",
    )
