"""Pyro distributions whose values are sufficient statistics, priors, posteriors and points."""

from pyro_crowdclust.distributions.assignments import SparseAssignment, SummedAssignment
from pyro_crowdclust.distributions.class_labels import AssignmentAtMean
from pyro_crowdclust.distributions.pairs import SameCluster, TwoCoinAnswer
from pyro_crowdclust.distributions.plates import FullPlate
from pyro_crowdclust.distributions.point_estimates import PointEstimate
from pyro_crowdclust.distributions.priors import ConjugatePosterior, ConjugatePrior, sample_sites
from pyro_crowdclust.distributions.row_sites import (
    OfItems,
    RowComponent,
    RowNormal,
    RowNormalAtMean,
)
from pyro_crowdclust.distributions.rows import Rows
from pyro_crowdclust.distributions.statistics import (
    Assignment,
    AtMean,
    ComponentObservation,
    GaussianAtMean,
)

__all__ = [
    "Assignment",
    "AssignmentAtMean",
    "AtMean",
    "ComponentObservation",
    "ConjugatePosterior",
    "ConjugatePrior",
    "FullPlate",
    "GaussianAtMean",
    "OfItems",
    "PointEstimate",
    "RowComponent",
    "RowNormal",
    "RowNormalAtMean",
    "Rows",
    "SameCluster",
    "SparseAssignment",
    "SummedAssignment",
    "TwoCoinAnswer",
    "sample_sites",
]
