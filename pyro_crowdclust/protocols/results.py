"""The contract of a fitted result, for everything that reads it."""

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
    """The members of a fitted result that reports, plots, diagnostics and asking use."""

    @property
    def model(self) -> Any:
        """The fit's own copy of the model."""

    @property
    def guide(self) -> Any:
        """The fit's own copy of the guide."""

    @property
    def data(self) -> CrowdData:
        """The training data."""

    @property
    def history(self) -> pd.DataFrame:
        """One row per epoch."""

    @property
    def elbo(self) -> float:
        """The ELBO of all data, in nats."""

    @property
    def stop_reason(self) -> str:
        """The reason why training ended."""

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
        """The device of the fit's tensors."""

    @property
    def probabilities(self) -> Float[np.ndarray, "item cluster"]:
        """q(z_i = k) of every training item."""

    @property
    def has_assignments(self) -> bool:
        """Whether the guide has a q(z) of the items."""

    @property
    def cluster_order(self) -> Int[np.ndarray, " cluster"] | None:
        """The guide's number of every cluster, from the largest on; None: the same numbers."""

    @property
    def component_probabilities(self) -> Float[Tensor, "item component"]:
        """q(z_i) of every training item over components, in the guide's order."""

    @property
    def component_probabilities_by_features(self) -> Float[Tensor, "item component"] | None:
        """The same without the answers; None if there are no features."""

    @property
    def owners(self) -> Float[np.ndarray, "component cluster"] | None:
        """q(c) of every component, if the model has an ownership; otherwise None."""

    @property
    def assignments(self) -> Int[np.ndarray, " item"]:
        """The most probable cluster of every training item."""

    def same_cluster_probability(self, left: Any, right: Any) -> Any:
        """P(z_i = z_j) of pairs of training items, by the user's ids."""

    def same_cluster_by_position(self, left: Any, right: Any) -> Float[np.ndarray, " pair"]:
        """P(z_i = z_j) of pairs of training items, by positions in the data."""

    @property
    def latent_means(self) -> Float[np.ndarray, "item dim"] | None:
        """E_q[x_i] of every training item; None if the features are the latents."""

    @property
    def workers(self) -> pd.DataFrame:
        """One row per worker."""

    @property
    def confusion(self) -> pd.DataFrame:
        """``p(label | class)`` of every worker: mean and deviation by worker, class and label."""

    @property
    def clusters(self) -> pd.DataFrame:
        """One row per cluster."""

    @property
    def class_probabilities(self) -> pd.DataFrame:
        """q(y_i = k) of every training item, by the user's ids of items and classes."""

    def inside(self, seed: int | None = None) -> AbstractContextManager[None]:
        """A context with the fit's parameter store, repeatable random numbers and no gradients."""
