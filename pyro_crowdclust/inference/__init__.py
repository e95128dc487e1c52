"""Posteriors of one batch by message passing, and terms that networks learn besides the ELBO."""

from pyro_crowdclust.annotators.pair_messages import PairCoupling
from pyro_crowdclust.distributions.summaries import LocalPosterior
from pyro_crowdclust.inference.class_chains import ClassChains
from pyro_crowdclust.inference.class_reading import ClassReading
from pyro_crowdclust.inference.enumeration import (
    ItemSite,
    averaged,
    check_drawn_items,
    check_partly_observed,
    create_plates,
    latent_values,
    trace_of,
    trace_sites,
    unscaled_log_density,
)
from pyro_crowdclust.inference.importance import LogRatios
from pyro_crowdclust.inference.left_out_labels import LeavingOut, LeftOutLabels
from pyro_crowdclust.inference.loss_terms import (
    ConsistencyTerm,
    LabelTerm,
    LossTerms,
    RecognitionTerm,
    add_loss_term,
    set_epoch_of,
)
from pyro_crowdclust.inference.messages import (
    Conditionals,
    FixedConditionals,
    LocalConditionals,
    LocalSolver,
    SumCoupling,
)
from pyro_crowdclust.inference.page_chains import PageChains
from pyro_crowdclust.inference.pair_chains import PairChains
from pyro_crowdclust.inference.pair_evidence import FirstWorkers, PairEvidence
from pyro_crowdclust.inference.replicas import Replicas, run_replicas
from pyro_crowdclust.inference.rows_around import (
    SupportsExpectedRows,
    rows_around,
    rows_of_drawn_classes,
)
from pyro_crowdclust.inference.worker_draws import widened_by_draws

__all__ = [
    "ClassChains",
    "ClassReading",
    "Conditionals",
    "ConsistencyTerm",
    "FirstWorkers",
    "FixedConditionals",
    "ItemSite",
    "LabelTerm",
    "LeavingOut",
    "LeftOutLabels",
    "LocalConditionals",
    "LocalPosterior",
    "LocalSolver",
    "LogRatios",
    "LossTerms",
    "PageChains",
    "PairChains",
    "PairCoupling",
    "PairEvidence",
    "RecognitionTerm",
    "Replicas",
    "SumCoupling",
    "SupportsExpectedRows",
    "add_loss_term",
    "averaged",
    "check_drawn_items",
    "check_partly_observed",
    "create_plates",
    "latent_values",
    "rows_around",
    "rows_of_drawn_classes",
    "run_replicas",
    "set_epoch_of",
    "trace_of",
    "trace_sites",
    "unscaled_log_density",
    "widened_by_draws",
]
