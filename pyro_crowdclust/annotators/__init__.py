"""Annotator models: how workers answer about pairs, pages and classes, and how good they are."""

from pyro_crowdclust.annotators.confusion import CommunityConfusion, ConfusionMatrices
from pyro_crowdclust.annotators.drawn_rates import DrawnShares, weight_of
from pyro_crowdclust.annotators.graded import GradedAnswers
from pyro_crowdclust.annotators.graded_pairs import GradedPairs
from pyro_crowdclust.annotators.halved_grades import HalvedGrades
from pyro_crowdclust.annotators.informative import informative_workers
from pyro_crowdclust.annotators.item_states import ClassStates
from pyro_crowdclust.annotators.item_trait import ItemTrait
from pyro_crowdclust.annotators.label_sites import (
    LabelLikelihood,
    check_class_annotators,
    check_class_labels,
    describe_annotators,
    sample_classes,
    sample_evidence,
    weighted_leave_one_out,
    worker_weights_of,
)
from pyro_crowdclust.annotators.lapsing import LapsingWorkers
from pyro_crowdclust.annotators.one_coin import OneCoin
from pyro_crowdclust.annotators.page_urns import PageUrns
from pyro_crowdclust.annotators.pair_looks import CoinLooks, PairLooks, looks_of
from pyro_crowdclust.annotators.pair_sites import annotators_about
from pyro_crowdclust.annotators.sites import (
    check_annotators,
    rate_statistics,
    sample_answers,
    sample_rates,
    sites_in,
    sites_of,
    summarize_workers,
)
from pyro_crowdclust.annotators.sorted_pages import SortedPages, pair_rates
from pyro_crowdclust.annotators.sources import AnswerSources, Habit, Truth
from pyro_crowdclust.annotators.suited import (
    annotators_for,
    annotators_of_looks,
    annotators_on_pages,
    expected_counts,
)
from pyro_crowdclust.annotators.trusted import TrustedWorkers
from pyro_crowdclust.annotators.two_coin import TwoCoin

__all__ = [
    "AnswerSources",
    "ClassStates",
    "CoinLooks",
    "CommunityConfusion",
    "ConfusionMatrices",
    "DrawnShares",
    "GradedAnswers",
    "GradedPairs",
    "Habit",
    "HalvedGrades",
    "ItemTrait",
    "LabelLikelihood",
    "LapsingWorkers",
    "OneCoin",
    "PageUrns",
    "PairLooks",
    "SortedPages",
    "TrustedWorkers",
    "Truth",
    "TwoCoin",
    "annotators_about",
    "annotators_for",
    "annotators_of_looks",
    "annotators_on_pages",
    "check_annotators",
    "check_class_annotators",
    "check_class_labels",
    "describe_annotators",
    "expected_counts",
    "informative_workers",
    "looks_of",
    "pair_rates",
    "rate_statistics",
    "sample_answers",
    "sample_classes",
    "sample_evidence",
    "sample_rates",
    "sites_in",
    "sites_of",
    "summarize_workers",
    "weight_of",
    "weighted_leave_one_out",
    "worker_weights_of",
]
