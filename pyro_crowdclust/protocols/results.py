"""What is read of a result."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Any, Protocol

import numpy as np
import pandas as pd
import torch
from jaxtyping import Float, Int
from torch import Tensor

from pyro_crowdclust.data.crowd_data import CrowdData


class FittedModel(Protocol):
    """What texts, plots, diagnostics and questions to ask need of a fitted result."""

    @property
    def model(self) -> Any:
        """The fit's own copy of the model."""

    @property
    def guide(self) -> Any:
        """The fit's own copy of the guide."""

    @property
    def data(self) -> CrowdData:
        """What was learned from."""

    @property
    def history(self) -> pd.DataFrame:
        """One row per epoch."""

    @property
    def stop_reason(self) -> str:
        """Why training ended."""

    @property
    def seconds(self) -> float:
        """Time of the whole fit."""

    @property
    def seed(self) -> int:
        """Seed of the fit."""

    @property
    def feature_shape(self) -> tuple[int, ...] | None:
        """Shape of the features of one item."""

    @property
    def dtype(self) -> torch.dtype:
        """Precision of features and networks."""

    @property
    def device(self) -> Any:
        """Where the fit's tensors are."""

    @property
    def probabilities(self) -> Float[np.ndarray, "item cluster"]:
        """q(z_i = k) of every training item."""

    @property
    def has_assignments(self) -> bool:
        """Whether there is a q(z) of the items."""

    @property
    def cluster_order(self) -> Int[np.ndarray, " cluster"] | None:
        """The guide's own number of every cluster, from the largest on; None: as they are."""

    @property
    def component_probabilities(self) -> Float[Tensor, "item component"]:
        """q(z_i) of every training item, of components and in the guide's own order."""

    @property
    def component_probabilities_by_features(self) -> Float[Tensor, "item component"] | None:
        """The same as if nobody had been asked; None where there are no features."""

    @property
    def owners(self) -> Float[np.ndarray, "component cluster"] | None:
        """q(c) of every component, where clusters own components; None where each is one."""

    @property
    def assignments(self) -> Int[np.ndarray, " item"]:
        """The most probable cluster of every training item."""

    def same_cluster_probability(self, left: Any, right: Any) -> Any:
        """P(z_i = z_j) of pairs of training items, by the user's ids."""

    def same_cluster_by_position(self, left: Any, right: Any) -> Float[np.ndarray, " pair"]:
        """The same by positions in the data."""

    @property
    def latent_means(self) -> Float[np.ndarray, "item dim"] | None:
        """E_q[x_i] of every training item; None where the features are the latents."""

    @property
    def workers(self) -> pd.DataFrame:
        """One row per worker."""

    @property
    def clusters(self) -> pd.DataFrame:
        """One row per cluster."""

    @property
    def class_probabilities(self) -> pd.DataFrame:
        """q(y_i = k) of every training item, by the user's ids of items and classes."""

    def inside(self, seed: int | None = None) -> AbstractContextManager[None]:
        """The fit's own parameter store, random numbers that repeat, and no gradients."""
