"""Pyro distributions whose values are sufficient statistics; priors, posteriors, likelihoods."""

from pyro_crowdclust.distributions.assignments import SampledAssignment, SparseAtMean
from pyro_crowdclust.distributions.at_mean import ConjugateAtMean, GaussianAtMean, Point
from pyro_crowdclust.distributions.class_labels import AssignmentAtMean
from pyro_crowdclust.distributions.draws import NamedDraws, SiteDraws, named_draws
from pyro_crowdclust.distributions.likelihoods import (
    Assignment,
    ComponentObservation,
    LatentObservation,
)
from pyro_crowdclust.distributions.pairs import EnumeratedAgreement, SameCluster, TwoCoinAnswer
from pyro_crowdclust.distributions.plates import FullPlate
from pyro_crowdclust.distributions.point_estimates import PointEstimate
from pyro_crowdclust.distributions.priors import (
    ConjugatePosterior,
    ConjugatePrior,
    conjugate_posteriors,
    detached,
    sample_sites,
)
from pyro_crowdclust.distributions.row_sites import (
    OfItems,
    RowComponent,
    RowNormal,
    RowNormalAtMean,
    RowSites,
    emitted_rows,
)
from pyro_crowdclust.distributions.rows import Rows
from pyro_crowdclust.distributions.statistics import StatisticValued
from pyro_crowdclust.distributions.summaries import WorkerSummary

__all__ = [
    "Assignment",
    "AssignmentAtMean",
    "ComponentObservation",
    "ConjugateAtMean",
    "ConjugatePosterior",
    "ConjugatePrior",
    "EnumeratedAgreement",
    "FullPlate",
    "GaussianAtMean",
    "LatentObservation",
    "NamedDraws",
    "OfItems",
    "Point",
    "PointEstimate",
    "RowComponent",
    "RowNormal",
    "RowNormalAtMean",
    "RowSites",
    "Rows",
    "SameCluster",
    "SampledAssignment",
    "SiteDraws",
    "SparseAtMean",
    "StatisticValued",
    "TwoCoinAnswer",
    "WorkerSummary",
    "conjugate_posteriors",
    "detached",
    "emitted_rows",
    "named_draws",
    "sample_sites",
]
