"""Diagnostics of fits: export to ArviZ, Pareto-k, posterior predictive checks, restarts."""

from pyro_crowdclust.diagnostics.alignment import aligned_order
from pyro_crowdclust.diagnostics.draws import SiteDraws
from pyro_crowdclust.diagnostics.export import to_arviz, weight_draws
from pyro_crowdclust.diagnostics.naming import NamedDraws, by_site, of_annotators
from pyro_crowdclust.diagnostics.pareto import ParetoDiagnostic, pareto_k
from pyro_crowdclust.diagnostics.predictive import check_workers

__all__ = [
    "NamedDraws",
    "ParetoDiagnostic",
    "SiteDraws",
    "aligned_order",
    "by_site",
    "check_workers",
    "of_annotators",
    "pareto_k",
    "to_arviz",
    "weight_draws",
]
