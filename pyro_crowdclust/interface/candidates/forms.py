"""Forms: the coordinates and kinds of components that a choice compares."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from torch import Tensor

from pyro_crowdclust import CrowdData
from pyro_crowdclust.emissions import Identity
from pyro_crowdclust.interface.candidates.atoms import MAX_COLUMNS
from pyro_crowdclust.interface.candidates.coordinates import in_units_of_features
from pyro_crowdclust.interface.candidates.recipes import answers_recipe, with_at_most
from pyro_crowdclust.interface.recipe import Recipe
from pyro_crowdclust.transforms import NoCoordinates

# Largest number of items to which candidates are fitted.
MAX_ITEMS = 2000
# Full covariances of more features have more parameters than most tables have items.
MAX_FULL = MAX_COLUMNS
# Names of the kinds of candidates.
FULL, DIAGONAL, REGRESSION = "full Gaussians", "diagonal Gaussians", "regression"
HEAVY, DIAGONAL_HEAVY = "full Student's t", "diagonal Student's t"
INDEPENDENT = "independent columns"
# Regressions on landmarks, in which clusters and classes may have any shape, and their widths in
# units of the median distance of two items.
PROCESSES = {"Gaussian process": 1.0, "narrow Gaussian process": 0.5}
# Functions that make coordinates from data, and what makes their ELBOs comparable.
MakeCoordinates = Callable[[CrowdData], Identity]
ToCompare = Callable[[Identity, Tensor], float]


@dataclass(frozen=True)
class Form:
    """How the features are modelled, except for the number of components.

    Forms are equal if they have the same ``name``: functions that are made twice are not equal,
    though they do the same.

    Attributes
    ----------
    features
        The coordinates of the components, in words.
    kind
        The kind of components, in words.
    make_coordinates
        Makes the coordinates from the data.
    make
        Makes the recipe from the data, the number of components, and the coordinates.
    of_features
        Whether it has a density of the features, so that its ELBO can be compared with those of
        others. Forms without one are compared by held-out answers only.
    to_compare
        Returns what must be added to the ELBO on the coordinates, in nats an item, to make it
        comparable, from the coordinates and the features of the fit (``spread_over_steps``).
    heavier_than
        For heavy tails: the corresponding kind without. The form is tried only if that kind does
        best, as tails do not change whether columns depend on each other in a cluster. None for
        kinds without heavy tails.
    epochs
        Largest number of epochs of a trial. The ELBO of many clusters on many directions rises
        again after a plateau of some 50 epochs.
    max_clusters
        An upper bound on the clusters that own components; None for no bound.
    """

    features: str
    kind: str
    make_coordinates: MakeCoordinates = field(compare=False)
    make: Callable[[CrowdData, int, Identity], Recipe] = field(compare=False)
    of_features: bool = field(default=True, compare=False)
    to_compare: ToCompare = field(default=in_units_of_features, compare=False)
    heavier_than: str | None = field(default=None, compare=False)
    epochs: int = field(default=60, compare=False)
    max_clusters: int | None = field(default=None, compare=False)

    @property
    def name(self) -> str:
        """Kind and coordinates, in words; no two forms of a choice have the same."""
        return f"{self.kind} on {self.features}"

    def recipe(
        self, data: CrowdData, num_components: int, coordinates: Identity | None = None
    ) -> Recipe:
        """The model with this number of components, its guide and the options of ``fit``.

        ``coordinates`` are the form's coordinates of the data, if they are known already.
        """
        if coordinates is None:
            coordinates = self.make_coordinates(data)
        made = self.make(data, num_components, coordinates)
        return made if self.max_clusters is None else with_at_most(made, self.max_clusters)


# Clusters from answers only; features are not used.
ANSWERS = Form(
    "nothing", REGRESSION, lambda data: NoCoordinates(), answers_recipe, of_features=False
)
