"""Parts of every kind, by name: a part is tested against its contract by a row here.

Weights, components and emissions have their tables in ``mixture_parts``, where they are crossed
with each other; families have theirs in ``pyro_crowdclust.families``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from pyro_crowdclust import CrowdData, fit
from pyro_crowdclust.annotators import (
    AnswerSources,
    ClassStates,
    CommunityConfusion,
    ConfusionMatrices,
    GradedAnswers,
    GradedPairs,
    Habit,
    ItemTrait,
    OneCoin,
    PageUrns,
    SortedPages,
    TrustedWorkers,
    Truth,
    TwoCoin,
)
from pyro_crowdclust.callbacks import (
    ClassMoves,
    DropMoves,
    LearnedPrior,
    MergeMoves,
    NearbyOwners,
    OwnershipMoves,
    RateMoves,
)
from pyro_crowdclust.data import without_features
from pyro_crowdclust.distributions import ConjugatePrior, TwoCoinAnswer
from pyro_crowdclust.emissions import Identity, NormalEmission
from pyro_crowdclust.families import Beta, Categorical
from pyro_crowdclust.guides import (
    ClassLabelGuide,
    MessagePassingGuide,
    PairRegressionGuide,
    PartitionGuide,
    SortedPartitionGuide,
    StructuredGuide,
    TwoWayGuide,
)
from pyro_crowdclust.mixture import (
    DiagonalGaussianComponents,
    DirichletWeights,
    GaussianComponents,
    MultinomialComponents,
    SoftmaxRegression,
)
from pyro_crowdclust.models import (
    AnsweredPartition,
    AveragedPredictions,
    DawidSkene,
    DeepLatentMixture,
    LatentTrait,
    LogResp,
    MomResp,
    PairRegression,
    SemiCrowdsourcedMixture,
    SortedPartition,
    TwoWayMixture,
)
from pyro_crowdclust.networks import ClusterRecognition, CodedMLP, SkipMLP
from pyro_crowdclust.partitions import FewClusters, LikenessRegression, ManySmall, PitmanYor
from pyro_crowdclust.simulation import simulate_placements
from pyro_crowdclust.starts import (
    KMeansStart,
    LabeledStart,
    LearnedPriorStart,
    PartitionStart,
    PrincipalComponentStart,
    TrustingStart,
    default_start,
)
from pyro_crowdclust.supervision import ClassTable

from .crowds import (
    NUM_WORKERS,
    amortized_pair,
    blobs,
    classifier_pair,
    crowd,
    message_passing_pair,
    owned_pair,
    plain_pair,
)

WORKERS, CLASSES, CLUSTERS, FEATURES = NUM_WORKERS, 2, 3, 4


class OneAccuracy(nn.Module):
    """A part as a user writes it: one accuracy for pairs of both kinds."""

    def __init__(self, num_workers: int) -> None:
        super().__init__()
        self.num_workers = num_workers
        eta = Beta().natural(torch.tensor(2.0), torch.tensor(1.0))
        self.accuracy = ConjugatePrior(Beta(), eta, num_workers, dims=("worker",))

    def priors(self) -> dict[str, ConjugatePrior]:
        return {"accuracy": self.accuracy}

    def answer(self, same: Tensor, rates: Mapping[str, Tensor], worker: Tensor) -> TwoCoinAnswer:
        accuracy = rates["accuracy"]
        return TwoCoinAnswer(same, accuracy, accuracy, worker)

    def log_likelihood_ratio(
        self, rates: Mapping[str, Tensor], worker: Tensor, label: Tensor
    ) -> Tensor:
        right, wrong = rates["accuracy"][worker].unbind(-1)
        return torch.where(label == 1, right - wrong, wrong - right)


class WorkerKinds(nn.Module):
    """A site that is no Beta: every worker is careful, guesses, or says "same" to everything."""

    def __init__(self, num_workers: int) -> None:
        super().__init__()
        self.num_workers = num_workers
        kinds = Categorical(3)
        eta = kinds.natural(torch.tensor([0.5, 0.3, 0.2]))
        self.kind = ConjugatePrior(kinds, eta, num_workers, dims=("worker", "kind_of_worker"))
        sensitivity, specificity = (
            torch.tensor(part, dtype=torch.float64) for part in ([0.9, 0.5, 0.95], [0.9, 0.5, 0.1])
        )
        self.register_buffer("sensitivity", Beta().sufficient_statistics(sensitivity))
        self.register_buffer("specificity", Beta().sufficient_statistics(specificity))

    def priors(self) -> dict[str, ConjugatePrior]:
        return {"kind": self.kind}

    def _rates(self, rates: Mapping[str, Tensor]) -> tuple[Tensor, Tensor]:
        return rates["kind"] @ self.sensitivity, rates["kind"] @ self.specificity

    def answer(self, same: Tensor, rates: Mapping[str, Tensor], worker: Tensor) -> TwoCoinAnswer:
        return TwoCoinAnswer(same, *self._rates(rates), worker)

    def log_likelihood_ratio(
        self, rates: Mapping[str, Tensor], worker: Tensor, label: Tensor
    ) -> Tensor:
        sensitivity, specificity = self._rates(rates)
        ratio = sensitivity - specificity.flip(-1)
        return ratio[worker, 1 - label.long()]


PAIR_ANNOTATORS: dict[str, Callable[[int], Any]] = {
    "two coins": lambda workers: TwoCoin(workers, (2.0, 1.0), (3.0, 1.5)),
    "one accuracy": OneAccuracy,
    "kinds of workers": WorkerKinds,
    "two grades": lambda workers: GradedPairs(workers, 2, unsure=False),
}

CLASS_ANNOTATORS: dict[str, Callable[[int, int], Any]] = {
    "confusion": lambda workers, classes: ConfusionMatrices(workers, classes, 2.0, 1.5),
    "confusion, in part": lambda workers, classes: ConfusionMatrices(
        workers, classes, worker_weights=[0.5] * workers
    ),
    "one coin": lambda workers, classes: OneCoin(workers, classes, (2.5, 1.2)),
    "communities": lambda workers, classes: CommunityConfusion(workers, classes, 2),
    "one trusted": lambda workers, classes: TrustedWorkers(
        CommunityConfusion(workers, classes, 2), [workers - 1]
    ),
    "sources": lambda workers, classes: AnswerSources(
        [Truth(workers, classes), Habit(workers, classes), ConfusionMatrices(workers, classes)]
    ),
    "states": lambda workers, classes: ClassStates(workers, classes),
    "trait": lambda workers, _: ItemTrait(workers),
}


def labelled(seed: int = 0, features: bool = True) -> CrowdData:
    """Two kinds of counts, of which three workers name the class, now and then wrongly."""
    rng = np.random.default_rng(seed)
    truth = rng.integers(CLASSES, size=30)
    shares = np.array([[0.4, 0.4, 0.1, 0.1], [0.1, 0.1, 0.4, 0.4]])[truth]
    rows = {"item": np.repeat(np.arange(30), WORKERS), "worker": np.tile(np.arange(WORKERS), 30)}
    wrong = rng.random(30 * WORKERS) < 0.2
    labels = np.where(wrong, 1 - truth[rows["item"]], truth[rows["item"]])
    counts = rng.multinomial(20, shares).astype(float) if features else None
    return CrowdData(counts, labels=rows | {"label": labels})


def classed() -> CrowdData:
    """Blobs, and known classes of a third of them."""
    features, truth = blobs()
    known = [int(label) if row % 3 == 0 else None for row, label in enumerate(truth)]
    return CrowdData(features, known=known)


def _with_class_table() -> tuple[Any, Any, CrowdData]:
    data = classed()
    components = GaussianComponents(CLUSTERS, FEATURES)
    table = ClassTable.of(data, CLUSTERS)
    model = SemiCrowdsourcedMixture(
        DirichletWeights(CLUSTERS, 1.0), components, Identity(), supervision=table
    )
    return model, MessagePassingGuide(model), data


def _sorted(data: CrowdData) -> CrowdData:
    """The items of a crowd, with pages that its workers sorted."""
    pages = simulate_placements(
        np.arange(data.num_items) % CLUSTERS,
        [0.9, 0.8, 0.7, 0.9, 0.6][:WORKERS],
        pages_per_worker=2,
        page_size=8,
        lumped=0.2,
        seed=0,
    )
    return CrowdData(data.features, placements=pages, item_ids=data.item_ids)


def _sorted_pages() -> tuple[Any, Any, CrowdData]:
    model = SemiCrowdsourcedMixture(
        DirichletWeights(CLUSTERS, 1.0),
        DiagonalGaussianComponents(CLUSTERS, FEATURES),
        Identity(),
        SortedPages(WORKERS),
    )
    return model, MessagePassingGuide(model), _sorted(crowd())


def _sorted_pages_two_way() -> tuple[Any, Any, CrowdData]:
    model = TwoWayMixture(CLUSTERS, 2, FEATURES, SortedPages(WORKERS))
    return model, TwoWayGuide(model), _sorted(crowd())


def _sorted_pages_deep() -> tuple[Any, Any, CrowdData]:
    return _deep(SortedPages(WORKERS), _sorted(crowd()))


def _deep_latents() -> tuple[Any, Any, CrowdData]:
    return _deep(TwoCoin(WORKERS), crowd())


def _deep(annotators: Any, data: CrowdData) -> tuple[Any, Any, CrowdData]:
    model = DeepLatentMixture(
        DirichletWeights(CLUSTERS, 1.0),
        DiagonalGaussianComponents(CLUSTERS, 2, degrees=3.0),
        NormalEmission(CodedMLP((2, 5, FEATURES), CLUSTERS), FEATURES, num_clusters=CLUSTERS),
        annotators=annotators,
    )
    head = CodedMLP((5, 6, 4), CLUSTERS)
    recognition = ClusterRecognition(SkipMLP((FEATURES, 6, 5)), head, [2])
    return model, StructuredGuide(model, recognition, num_draws=2), data


def _two_way() -> tuple[Any, Any, CrowdData]:
    model = TwoWayMixture(CLUSTERS, 2, FEATURES, TwoCoin(WORKERS))
    return model, TwoWayGuide(model), crowd()


def _pair_regression() -> tuple[Any, Any, CrowdData]:
    model = PairRegression(SoftmaxRegression(CLUSTERS, FEATURES), TwoCoin(WORKERS))
    data = crowd()
    return model, PairRegressionGuide(model, num_items=data.num_items), data


def _class_labels(model: Any, data: CrowdData) -> tuple[Any, Any, CrowdData]:
    return model, ClassLabelGuide(model, start_steps=3), data


def _confusion() -> ConfusionMatrices:
    return ConfusionMatrices(WORKERS, CLASSES)


def _answers_alone() -> tuple[Any, Any, CrowdData]:
    data = crowd()
    alone = CrowdData(None, data.pairs, item_ids=data.item_ids)
    model = AnsweredPartition(TwoCoin(alone.num_workers), PitmanYor())
    return model, PartitionGuide(model, alone.num_items, num_draws=2, num_chains=2), alone


def _grades_alone() -> tuple[Any, Any, CrowdData]:
    data = crowd()
    pairs = data.pairs.assign(label=2 * data.pairs["label"])
    alone = CrowdData(None, pairs, grades=[0, 1, 2], item_ids=data.item_ids)
    model = AnsweredPartition(GradedAnswers(alone.num_workers, 3), PitmanYor())
    return model, PartitionGuide(model, alone.num_items, num_draws=2), alone


def _alike() -> tuple[Any, Any, CrowdData]:
    data = crowd()
    left, right = np.triu_indices(20, 1)
    apart = np.linalg.norm(data.features[left] - data.features[right], axis=1)
    alike = {"left": left, "right": right, "nearness": -apart}
    alone = CrowdData(None, data.pairs, item_ids=data.item_ids, likeness=alike)
    model = AnsweredPartition(TwoCoin(WORKERS), ManySmall(), likeness=LikenessRegression(1))
    return model, PartitionGuide(model, alone.num_items, num_draws=2), alone


def _pages_alone() -> tuple[Any, Any, CrowdData]:
    data = _sorted(crowd())
    alone = without_features(data)
    model = SortedPartition(PageUrns(alone.num_workers), FewClusters())
    return model, SortedPartitionGuide(model, alone.num_items, num_draws=2, num_chains=2), alone


def _averaged() -> tuple[Any, Any, CrowdData]:
    data = labelled()
    members = [
        MomResp(MultinomialComponents(CLASSES, FEATURES, length=20), _confusion()),
        LogResp(SoftmaxRegression(CLASSES, FEATURES), _confusion()),
    ]
    guides = [
        fit(one, ClassLabelGuide(one), data, epochs=2, progress=False).guide for one in members
    ]
    return _class_labels(AveragedPredictions(guides, [0.3, 0.7], _confusion()), data)


# A model, its guide, and data for them.
PAIRS_OF_MODEL_AND_GUIDE: dict[str, Callable[[], tuple[Any, Any, CrowdData]]] = {
    "plain mixture": lambda: (*plain_pair(), crowd()),
    "message passing": lambda: (*message_passing_pair(), crowd()),
    "message passing, network of z": lambda: (*classifier_pair(), crowd()),
    "amortized": lambda: (*amortized_pair(), crowd()),
    "class table": _with_class_table,
    "deep latents": _deep_latents,
    "two-way": _two_way,
    "sorted pages": _sorted_pages,
    "sorted pages, two-way": _sorted_pages_two_way,
    "sorted pages, deep latents": _sorted_pages_deep,
    "pair regression": _pair_regression,
    "answers alone": _answers_alone,
    "answers alone, grades": _grades_alone,
    "answers alone, likeness": _alike,
    "pages alone": _pages_alone,
    "dawid-skene": lambda: _class_labels(DawidSkene(_confusion()), labelled(features=False)),
    "latent trait": lambda: _class_labels(
        LatentTrait(ItemTrait(WORKERS)), labelled(features=False)
    ),
    "momresp": lambda: _class_labels(
        MomResp(MultinomialComponents(CLASSES, FEATURES, length=20), _confusion()), labelled()
    ),
    "logresp": lambda: _class_labels(
        LogResp(SoftmaxRegression(CLASSES, FEATURES), _confusion()), labelled()
    ),
    "averaged predictions": _averaged,
}

# Starts of a plain mixture on features, with data that have all they ask for.
STARTS: dict[str, Any] = {
    "default": default_start,
    "principal components": PrincipalComponentStart(),
    "labels": LabeledStart(),
    "learned prior": LearnedPriorStart(LabeledStart()),
    "k-means": KMeansStart(num_starts=2),
    "partition": PartitionStart(np.arange(60) % CLUSTERS),
    "trusting": TrustingStart(),
}

# Callbacks, each with what makes a model and a guide that it is for.
CALLBACKS: dict[str, tuple[Callable[[], tuple[Any, Any]], Callable[[], Any]]] = {
    "class moves": (amortized_pair, ClassMoves),
    "drop moves": (amortized_pair, DropMoves),
    "learned prior": (plain_pair, lambda: LearnedPrior(first_epoch=1)),
    "merge moves": (amortized_pair, MergeMoves),
    "nearby owners": (owned_pair, NearbyOwners),
    "ownership moves": (owned_pair, OwnershipMoves),
    "rate moves": (amortized_pair, RateMoves),
}

# Exported parts that keep a contract, but are in no table, and why.
NOT_HERE: dict[str, str] = {
    "AnswersStart": "refuses data with known labels, from which the other starts begin",
    "ClassesStart": "is for models of class labels",
    "FittedStart": "needs another fit",
    "GroupsStart": "begins at groups, whatever labels are known",
    "TaughtStart": "needs a guide with a classifier",
    "LapsingWorkers": "is not linear in its sites, as attention to each page is summed out",
    "Habit": "is a row as a part of AnswerSources",
    "Truth": "is a row as a part of AnswerSources",
}
