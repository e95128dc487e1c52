"""The values of ``--model``: which files each uses, what columns hold, and how it is fitted."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from pyro_crowdclust import CrowdData, Fitted
from pyro_crowdclust.interface.candidates.columns import components_for
from pyro_crowdclust.interface.class_labels.classification import classify
from pyro_crowdclust.interface.clustering import recipe_for
from pyro_crowdclust.interface.command_line.fit_folder import (
    FILES,
    exported_tables,
    read_data,
    read_labels,
)
from pyro_crowdclust.interface.command_line.reading import FeatureTable
from pyro_crowdclust.interface.networks import DeepBernoulli, DeepNormal
from pyro_crowdclust.mixture import (
    Components,
    DiagonalGaussianComponents,
    GaussianComponents,
    MultinomialComponents,
)

Kinds = Mapping[Hashable, str]
Parts = Callable[[CrowdData, Namespace], dict[str, Any]]


@dataclass(frozen=True)
class Takes:
    """Which files a model uses besides ``--answers``; at least one of ``needs`` is required."""

    files: tuple[str, ...]
    needs: tuple[str, ...]
    remedy: str = "leave out --model"

    def check(self, options: Namespace) -> None:
        """Refuse files that the model does not use, before they are read."""
        if options.trusted and "labels" not in self.files:
            raise ValueError(
                "--trusted names workers who gave labels of classes, which --model "
                f"{options.model} does not use: leave it out, or pass labels that are certain as "
                "--known"
            )
        if options.clusters is not None and "labels" in self.files:
            raise ValueError(
                "--clusters limits the number of clusters, but the classes here are those that "
                "workers named: leave it out"
            )
        for name in (*FILES, "labels"):
            if getattr(options, name) is not None and name not in self.files:
                word = name.replace("_", "-")
                raise ValueError(f"--model {options.model} does not use --{word}: {self.remedy}")
        if all(getattr(options, name) is None for name in self.needs):
            needs = " or ".join(f"--{name}" for name in self.needs)
            raise ValueError(f"there is nothing to fit: --model {options.model} needs {needs}")


class CommandModel(Protocol):
    """The meaning of one value of ``--model``."""

    @property
    def takes(self) -> Takes:
        """The files."""

    @property
    def kind(self) -> str | None:
        """What columns hold for which no option says it; None: inferred from the data."""

    def of_files(self, options: Namespace) -> CommandModel:
        """The model for the files of these options; it may depend on what is in them."""

    def fit(self, options: Namespace, table: FeatureTable | None, kinds: Kinds) -> Fitted:
        """Read the answers, and fit."""


@dataclass(frozen=True)
class Clusters:
    """Clusters of items.

    Attributes
    ----------
    parts
        Returns arguments of ``recipe_for``, from data and options.
    kind, takes
        As in ``CommandModel``.
    """

    parts: Parts
    kind: str | None = None
    takes: Takes = Takes(FILES, ("features",))

    def of_files(self, options: Namespace) -> CommandModel:
        return self

    def fit(self, options: Namespace, table: FeatureTable | None, kinds: Kinds) -> Fitted:
        data = read_data(vars(options), table, kinds, options.grades)
        recipe = recipe_for(data, num_clusters=options.clusters, **self.parts(data, options))
        return recipe.fit(num_starts=options.starts, **_training(options))


@dataclass(frozen=True)
class Classes:
    """Classes that workers named, with or without features."""

    takes: Takes
    kind: str | None = None

    def of_files(self, options: Namespace) -> CommandModel:
        return self

    def fit(self, options: Namespace, table: FeatureTable | None, kinds: Kinds) -> Fitted:
        labels = read_labels(vars(options), table)
        given = {"trusted": options.trusted, **_training(options)}
        if table is None:
            return classify(None, labels, **given)
        return classify(table.values, labels, item_ids=table.ids, kinds=kinds, **given)


@dataclass(frozen=True)
class ChooseModel(Clusters):
    """Classes if workers named some, otherwise clusters of the kind that suits the data best."""

    def of_files(self, options: Namespace) -> CommandModel:
        if options.labels is not None or options.answers is None:
            names_classes = options.labels is not None
        else:
            names_classes = {*exported_tables(vars(options), None)} == {"labels"}
        return _CHOICE_OF_CLASSES if names_classes else self


def _training(options: Namespace) -> dict[str, Any]:
    changes = {} if options.epochs is None else {"epochs": options.epochs}
    return {"seed": options.seed, "progress": not options.quiet, **changes}


def _by_columns(real: Callable[[int, int], Components]) -> Parts:
    """Components that suit what the columns hold."""
    return lambda data, options: {"components": components_for(data, real)}


def _with_networks(networks: type[DeepNormal] | type[DeepBernoulli]) -> Parts:
    """Networks of the sizes that the options give."""
    return lambda data, options: {"networks": networks(options.dim, tuple(options.hidden))}


_CHOICE_OF_CLASSES = Classes(
    Takes(
        files=("labels", "features"),
        needs=("labels", "answers"),
        remedy="labels of classes can be combined with --features only",
    )
)
MODELS: dict[str, CommandModel] = {
    "choose": ChooseModel(
        parts=lambda data, options: {},
        takes=Takes(FILES, ("features", "answers", "pairs", "placements", "labels")),
    ),
    "gaussian": Clusters(_by_columns(GaussianComponents)),
    "diagonal-gaussian": Clusters(_by_columns(DiagonalGaussianComponents)),
    "binary": Clusters(_by_columns(GaussianComponents), kind="binary"),
    "counts": Clusters(_by_columns(GaussianComponents), kind="count"),
    "words": Clusters(lambda data, options: {"components": MultinomialComponents}, kind="real"),
    "deep-normal": Clusters(_with_networks(DeepNormal), kind="real"),
    "deep-bernoulli": Clusters(_with_networks(DeepBernoulli), kind="real"),
    "dawid-skene": Classes(Takes(("labels",), ("labels", "answers"), "choose another --model")),
}
