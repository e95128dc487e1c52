"""Diagnostics of fits: export to ArviZ, Pareto-k, predictive checks, lapses, worker families."""

from pyro_crowdclust.diagnostics.alignment import aligned_order
from pyro_crowdclust.diagnostics.arviz_adapter import arviz
from pyro_crowdclust.diagnostics.export import to_arviz
from pyro_crowdclust.diagnostics.lapses import find_lapses
from pyro_crowdclust.diagnostics.pareto import ParetoDiagnostic, pareto_k
from pyro_crowdclust.diagnostics.predictive import check_workers
from pyro_crowdclust.diagnostics.worker_families import find_families

__all__ = [
    "ParetoDiagnostic",
    "aligned_order",
    "arviz",
    "check_workers",
    "find_families",
    "find_lapses",
    "pareto_k",
    "to_arviz",
]
