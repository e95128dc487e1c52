"""What every member of an average of models of class labels can be asked for."""

from __future__ import annotations

from typing import Protocol

import numpy as np
import pandas as pd
from jaxtyping import Float, Int

from pyro_crowdclust.data.crowd_data import CrowdData


class InferredClasses(Protocol):
    """A member of an average: a fit to class labels, or draws that started from one."""

    @property
    def data(self) -> CrowdData:
        """The items and their labels."""

    @property
    def probabilities(self) -> Float[np.ndarray, "item class"]:
        """q(y_i = k)."""

    @property
    def class_probabilities(self) -> pd.DataFrame:
        """``probabilities`` by the user's ids."""

    @property
    def confusion(self) -> pd.DataFrame:
        """p(label | class) of every worker, in the column ``mean``."""

    def answer_probabilities(
        self,
        item: Int[np.ndarray, " answer"],
        worker: Int[np.ndarray, " answer"],
        label: Int[np.ndarray, " answer"],
    ) -> Float[np.ndarray, "answer class"]:
        """p(label | class) of answers that the fit has not used."""
