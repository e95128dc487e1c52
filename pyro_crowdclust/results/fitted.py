"""``Fitted``: the result of a fit, with its assignments, tables and predictions."""

from __future__ import annotations

import dataclasses
import inspect
import os
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Protocol, runtime_checkable

import numpy as np
import pandas as pd
import pyro
import torch
from jaxtyping import Float, Int
from torch import Tensor

from pyro_crowdclust.data.crowd_data import CrowdData
from pyro_crowdclust.data.label_matrix import LabelMatrix
from pyro_crowdclust.diagnostics.export import to_arviz
from pyro_crowdclust.files.safetensors_file import check_replaceable, write_file
from pyro_crowdclust.files.writing import check_room
from pyro_crowdclust.minibatches.batch import Batch
from pyro_crowdclust.minibatches.making import full_batch
from pyro_crowdclust.networks.evaluation import evaluating
from pyro_crowdclust.protocols import SupportsPartition
from pyro_crowdclust.results.bound import bound_of
from pyro_crowdclust.results.chosen import Chosen
from pyro_crowdclust.results.cluster_doubt import ClusterDoubt
from pyro_crowdclust.results.cluster_numbers import ClusterNumbers
from pyro_crowdclust.results.drawn_partition import DrawnPartition
from pyro_crowdclust.results.guide_tables import (
    components_of,
    confusion_of,
    pages_of,
    workers_of,
)
from pyro_crowdclust.results.guide_verbs import with_verb
from pyro_crowdclust.results.inferred_partition import InferredPartition
from pyro_crowdclust.results.item_files import write_assignments
from pyro_crowdclust.results.item_posterior import (
    can_infer,
    infer,
    infer_by_features,
    infer_training_items,
    new_batches,
    new_items,
    new_parts,
    training_parts,
)
from pyro_crowdclust.results.pair_positions import pair_positions
from pyro_crowdclust.results.saving import content_of
from pyro_crowdclust.results.stored_values import StoredValues
from pyro_crowdclust.results.tables import CachedCopy, CopiedField, read_only
from pyro_crowdclust.results.text import as_html, three_lines
from pyro_crowdclust.results.updating import check_update_options, stored_start, updated
from pyro_crowdclust.training.isolation import keep_store, own_random_numbers, threads_for


@runtime_checkable
class SupportsAnswerProbabilities(Protocol):
    """A guide of class labels that predicts further labels of the same items."""

    def answer_probabilities(
        self,
        labels: LabelMatrix,
        item: Int[Tensor, " answer"],
        worker: Int[Tensor, " answer"],
        label: Int[Tensor, " answer"],
    ) -> Float[Tensor, "answer class"]:
        """``p(label | class)`` of answers that are not in ``labels``, given those that are."""


@dataclass(frozen=True, repr=False)
class Fitted:
    """A fitted model and guide, with assignments, tables, predictions, and saving.

    Clusters are numbered by size: cluster 0 has the most items (``cluster_order`` has the guide's
    numbers). Classes and named clusters keep the order of their ids. Clusters of a plain Pyro model
    keep the order of its z, since its sites are indexed by z.

    Changes of a table, tensor or array that was read from a fit do not change the fit; those of
    ``model``, ``guide`` and ``data`` are the fit's own, and not to be written into.

    Attributes
    ----------
    model, guide
        Trained copies. An autoguide, or another Pyro module, uses the parameters of this fit
        wherever it is called, as in ``result.guide.median()``; a function that calls ``pyro.param``
        uses them only in ``with result.inside():``.
    data
        The data of the fit.
    history
        One row per epoch: ``epoch, step, seconds, elbo`` (an average of minibatch estimates of
        the whole ELBO), ``clusters_in_use``, and columns of callbacks.
    stop_reason
        Why training ended; begins with one of the words of ``training.Ending``.
    seconds
        Time of the whole fit.
    seed
        Seed of the fit.
    elbo_objective
        The bound that was trained on.
    parameter_store
        Pyro's parameter store as the fit left it.
    dtype
        Precision of features and networks.
    device
        Device of the fit's tensors; None: the processor.
    feature_shape
        Shape of the features of one item.
    callbacks
        The callbacks of the fit, with their records; empty if the fit was loaded.
    chosen
        How the model was chosen; None if the user gave it.
    doubt
        Whether the clusters are kinds, by other numbers of components that describe features alone
        about as well; None if there is supervision, or if the model was not chosen.
    train_on
        ``fit`` with the options of this fit, for ``update``. A file has no code: if the fit was
        loaded, options with parts of your own are not known.
    """

    model: Any
    guide: Any
    data: CrowdData
    stop_reason: str
    seconds: float
    seed: int
    elbo_objective: Any
    parameter_store: Any
    dtype: torch.dtype
    device: Any
    history: CopiedField[pd.DataFrame] = CopiedField()
    feature_shape: tuple[int, ...] | None = None
    callbacks: tuple[Any, ...] = ()
    chosen: Chosen | None = None
    doubt: ClusterDoubt | None = None
    train_on: Callable[..., Fitted] | None = None
    # Not an argument of ``__init__``: a result that is replaced in part has other values.
    _stored: StoredValues | None = field(default=None, init=False)

    def __repr__(self) -> str:
        return three_lines(self)

    def _repr_html_(self) -> str:
        return as_html(self)

    @contextmanager
    def inside(self, seed: int | None = None) -> Iterator[None]:
        """Context with the fit's parameter store, repeatable random numbers, and no gradients.

        Networks are in evaluation mode: results of an item do not depend on dropout or on other
        items of its batch, and do not change the networks. Other threads that fit or read results
        wait until the block ends. Torch computes with one thread if the data are small.

        Parameters
        ----------
        seed
            Seed of the random numbers; default: that of the fit.
        """
        with (
            torch.no_grad(),
            # First of all the lock: another thread's end would put modules back in training mode.
            own_random_numbers(self.seed if seed is None else seed),
            evaluating(self.model, self.guide),
            threads_for(self.data),
            pyro.get_param_store().scope(self.parameter_store),
        ):
            yield

    def __post_init__(self) -> None:
        keep_store(self.parameter_store, self.model, self.guide)
        if self.feature_shape is None and self.data.features is not None:
            # The dataclass is frozen, so the default is set by its dictionary.
            self.__dict__["feature_shape"] = tuple(self.data.features.shape[1:])

    def use_stored(self, values: StoredValues) -> None:
        """Take these values from a file instead of computing them; called once, by ``load``."""
        object.__setattr__(self, "_stored", values)

    def save(self, path: str | os.PathLike, *, overwrite: bool = False) -> None:
        """Write the result to one file, which ``pyro_crowdclust.load`` reads.

        The file has the safetensors format, with JSON in its header: it contains no code, and any
        safetensors reader shows its tensors. It is a single file rather than a folder, so that it
        is always replaced as a whole. It contains parameters, ids, answers, probabilities, latent
        means, ELBO and history, but not the features.

        Parameters
        ----------
        path
            The file. An existing file keeps its permissions; a symbolic link is followed.
        overwrite
            Also replace a file that is not a result.

        Raises
        ------
        ValueError
            If the file cannot be written, if an existing file is not a result, or if the history or
            the ids contain objects that cannot be saved.
        """
        check_room(path, 1)
        if not overwrite:
            check_replaceable(path, "result", "give another path, or save(path, overwrite=True)")
        try:
            write_file(path, "result", content_of(self))
        except OSError as error:
            raise ValueError(f"cannot write {path}: {error.strerror or error}") from error

    def update(
        self,
        pairs: Any | None = None,
        *,
        placements: Any | None = None,
        labels: Any | None = None,
        features: Any | None = None,
        item_ids: Iterable[Hashable] | None = None,
        likeness: Any | None = None,
        **options: Any,
    ) -> Fitted:
        """Continue this fit with new answers, by known or new workers, about known or new items.

        Training starts from the parameters of this fit and uses its options. It ends at the same
        result as a fit to all answers, in fewer epochs, unless that fit, from its own start, would
        reach a different optimum. Two results begin anew, with the arguments of the first call: a
        model that ``cluster`` chose is chosen again once there are twice as many answers, and
        clusters from answers without features are drawn again, under the prior that was chosen,
        which is also chosen again where the new answers contradict it. What is frozen
        (``requires_grad_(False)``) stays so: where these are rates of workers, new workers stay at
        the prior. This result is not changed.

        Parameters
        ----------
        pairs, placements, labels
            Only the new answers, as for ``CrowdData``. Pages and pairs are converted to the form
            that the fit had (pairs without pages to pages of two items); new pages need new ids.
        features, item_ids
            New items, with the columns of the fit, and their ids; by default those of the data
            frame's index, or the next numbers. Only ids if the fit had no features.
        likeness
            Similarities of more pairs of items, if the fit used those of others.
        options
            Options of ``fit`` that replace those of this fit. By default networks train for a tenth
            of its epochs.

        Raises
        ------
        TypeError
            For an unknown argument.
        ValueError
            If the fit was loaded without its data, or had an option with parts of your own, which
            no file has, and which is not given again; if the model has no annotators, or these
            cannot have new workers; if there are new items and a user-defined guide has latents of
            the items of the fit only; and for data that ``CrowdData`` refuses.

        Examples
        --------
        >>> import numpy as np
        >>> from pyro_crowdclust import cluster
        >>> from pyro_crowdclust.mixture import GaussianComponents
        >>> x = np.random.default_rng(0).normal(size=(60, 2)) + 8 * (np.arange(60) % 2)[:, None]
        >>> pairs = {"left": [0, 0], "right": [2, 1], "worker": ["a", "a"], "label": [1, 0]}
        >>> parts = {"components": GaussianComponents, "num_clusters": 4}
        >>> result = cluster(x, pairs, **parts, progress=False)
        >>> result.update({"left": [1], "right": [3], "worker": ["b"], "label": [1]}).data
        CrowdData(60 items, features float64 [2], 3 answers by 2 workers on 4 items)
        """
        own = {*inspect.signature(self.update).parameters} - {"options"}
        check_update_options(self.train_on, own, options)
        if self._partition.keeps_start:
            options = {"initialize": stored_start(self.parameter_store)} | options
        answers = {"pairs": pairs, "placements": placements, "labels": labels}
        again = updated(
            self,
            answers,
            features=features,
            item_ids=item_ids,
            likeness=likeness,
            options=options,
        )
        if again.chosen is not None:
            return again
        return dataclasses.replace(again, chosen=self.chosen, doubt=self.doubt)

    @cached_property
    def elbo(self) -> float:
        """The ELBO of all data, in nats; ``fit_restarts`` ranks fits by it.

        It is exact if no site of the guide has to be sampled. Otherwise it is an average over 64
        draws of these sites, fewer for large data (``results.bound``). The random numbers are the
        same for all fits, so that part of their noise is common to fits that are compared.
        """
        return self.elbo_of(full_batch(self.data)) if self._stored is None else self._stored.elbo

    def elbo_of(self, batch: Batch) -> float:
        """The ELBO of a batch: its weighted items and answers, and the global terms.

        As ``elbo``, it is an average over draws if sites of the guide have to be sampled.
        """
        with self.inside(seed=0):
            batch = batch.to(self.device, self.dtype)
            return bound_of(self.elbo_objective, self.model, self.guide, batch, self.device)

    @cached_property
    def has_assignments(self) -> bool:
        """Whether there is a q(z) of the items: the guide infers it, or the model enumerates z."""
        return self._stored_items is not None or can_infer(self)

    @property
    def _stored_items(self) -> tuple[Tensor, Tensor | None] | None:
        return None if self._stored is None else self._stored.items

    @cached_property
    def _training_items(self) -> tuple[Tensor, Tensor | None]:
        """q(z) and latent means of the training items, given all answers."""
        return self._stored_items or infer_training_items(self)

    @cached_property
    def _partition(self) -> DrawnPartition | InferredPartition:
        """The clusters of the items: draws of the partition if the guide makes them, or q(z)."""
        if isinstance(self.guide, SupportsPartition):
            pairs = self.guide.random_pairs(self.data)
            return DrawnPartition(self.guide.partition_draws().cpu(), pairs)
        return InferredPartition(self, self._numbers, self.doubt)

    @cached_property
    def _numbers(self) -> ClusterNumbers:
        """The mapping from the guide's components to clusters."""
        return ClusterNumbers(self)

    @CachedCopy
    def cluster_order(self) -> Int[np.ndarray, " cluster"] | None:
        """The guide's number of every cluster, largest cluster first.

        Clusters are sorted by the number of assigned items, then by the expected number of items;
        by their weights if the features are too large for memory. None if the guide's order is
        kept, as for classes, named clusters, and guides without ``mixture()``.
        """
        if self._stored is not None and self._stored.items is not None:
            return self._stored.cluster_order
        return self._numbers.by_size()

    @cached_property
    def probabilities(self) -> Float[np.ndarray, "item cluster"]:
        """Probabilities of the clusters of every training item, given the answers about it.

        ``q(z_i = k)``; if clusters own components, ``sum_l q(z_i = l) q(c_l = k)``; if partitions
        were drawn, the share of the draws. They take it for granted that the clusters are kinds,
        as ``predict_proba`` and ``to_arviz`` do.
        """
        return read_only(self._partition.probabilities())

    def cluster_probabilities(self, items: Iterable[Hashable]) -> Float[np.ndarray, "item cluster"]:
        """The rows of ``probabilities`` of some training items, by the user's ids."""
        return self._partition.probabilities(self.data.item_positions(items).numpy())

    @CachedCopy
    def component_probabilities(self) -> Float[Tensor, "item component"]:
        """q(z_i) of every training item, over components in the guide's order."""
        return self._training_items[0]

    @CachedCopy
    def inferred_latents(self) -> Float[Tensor, "item dim"] | None:
        """E_q[x_i] of every training item, if the guide infers q of the items; otherwise None."""
        return self._training_items[1]

    @CachedCopy
    def component_probabilities_by_features(self) -> Float[Tensor, "item component"] | None:
        """q(z_i) of every training item given its features, but not the answers about it.

        None if the fit has no features, or they are missing, as in a loaded fit.
        """
        return infer_by_features(self)

    @cached_property
    def owners(self) -> Float[np.ndarray, "component cluster"] | None:
        """q(c) of every component if clusters own components; None if each is a cluster."""
        owners = self._numbers.owners
        return None if owners is None else read_only(self._numbers.in_order(owners.mT.numpy()).T)

    @property
    def assignments(self) -> Int[np.ndarray, " item"]:
        """The most probable cluster of every training item."""
        return self._partition.assignments

    @property
    def assignment_probabilities(self) -> Float[np.ndarray, " item"]:
        """The probability of every training item's cluster in ``assignments``.

        Where the features alone chose the number of components, it is an average over the numbers
        that describe them about as well (``doubt``): the probability that an item is of the kind
        that most of its cluster is of. ``probabilities`` are given the chosen number.
        """
        return self._partition.own_shares

    @property
    def latent_means(self) -> Float[np.ndarray, "item dim"] | None:
        """E_q[x_i] of every training item; None where the features are the latents."""
        return self._partition.latent_means

    def predict_proba(self, features: Any) -> Float[np.ndarray, "item cluster"]:
        """Probabilities of the clusters of new items, from their features alone.

        They are given the chosen number of components, as ``probabilities`` are.

        Parameters
        ----------
        features
            As for ``CrowdData``. Columns of a data frame are found by their names, if those of the
            fit had names; others are ignored.

        Raises
        ------
        ValueError
            If columns of the fit are missing, or there are more or fewer numbers per item; for
            missing numbers (NaN) if the model does not integrate them out; if a user-defined guide
            has latents of the items of the fit only.
        """
        return self._numbers.of_items(infer(self, new_batches(self, features))[0])

    def predict(self, features: Any) -> Int[np.ndarray, " item"]:
        """The most probable cluster of new items."""
        return self.predict_proba(features).argmax(1)

    def transform(self, features: Any) -> Float[np.ndarray, "item dim"]:
        """Latent means of new items."""
        latents = infer(self, new_batches(self, features))[1]
        if latents is None:
            raise ValueError(
                "there are no latents: the components are on the features, or the guide's infer() "
                "returns none (LocalPosterior.latent)"
            )
        return latents.numpy()

    def new_items(self, features: Any) -> CrowdData:
        """New items, read with the column types of the fit.

        Raises
        ------
        ValueError
            As ``predict_proba`` does.
        """
        return new_items(self, features)

    def write_items(self, path: str | os.PathLike, features: Any | None = None) -> None:
        """Write the cluster of every item to a parquet file, a few thousand items at a time.

        It is for more items than ``probabilities`` and ``predict_proba`` can hold in memory.
        Columns: ``item`` (its id, or its row number if it is new; as a text if ids are of several
        types), ``cluster``, ``probability`` (as in ``assignment_probabilities``), ``probabilities``
        (of all clusters, a list). Needs ``pyarrow``.

        Parameters
        ----------
        path
            The file.
        features
            New items, as for ``predict``; default: the training items, given all answers.

        Raises
        ------
        ValueError
            If ``pyarrow`` is not installed, or the file cannot be written.
        """
        parts = training_parts(self) if features is None else new_parts(self, features)
        all_ids = self.data.item_ids if features is None else None
        tables = ((ids, q, self._numbers.of_items(q)) for ids, q in parts)
        rows = (
            (ids, table, self._numbers.own_shares(table, q, self.doubt)) for ids, q, table in tables
        )
        write_assignments(path, rows, all_ids)

    def same_cluster_probability(
        self,
        left: Hashable | Sequence[Hashable] | pd.Series,
        right: Hashable | Sequence[Hashable] | pd.Series,
    ) -> float | Float[np.ndarray, " pair"]:
        """``P(z_i = z_j) = sum_k q(z_i = k) q(z_j = k)`` of training items, by the user's ids.

        If clusters own components, ``sum_kl q(z_i = k) B_kl q(z_j = l)`` with ``B_kl`` the
        probability that components k and l are one cluster. Where the features alone chose the
        number of components, B is an average over the numbers that describe them about as well
        (``doubt``), so that B_kk < 1, too. If partitions were drawn, the share of
        the draws in which the two are together, with half a draw added to either outcome; if pairs
        were random and no chain of them connects the two, the mean over pairs that were not asked.

        Parameters
        ----------
        left, right
            Ids of two items, or two sequences of ids of the same length, such as table columns.
        """
        i, j, is_single = pair_positions(self.data, left, right)
        same = self.same_cluster_by_position(i, j)
        return float(same[0]) if is_single else same

    def same_cluster_by_position(
        self, left: Int[np.ndarray | Tensor, " pair"], right: Int[np.ndarray | Tensor, " pair"]
    ) -> Float[np.ndarray, " pair"]:
        """``same_cluster_probability`` of training items, by their positions in ``data``."""
        return self._partition.same(np.asarray(left), np.asarray(right))

    @CachedCopy
    def workers(self) -> pd.DataFrame:
        """One row per worker: posterior of sensitivity and specificity, and the worker's weight.

        The weight ``log alpha / (1 - alpha) + log beta / (1 - beta)`` (Luo et al. 2018, eq. 14, for
        "same" minus that for "different") is what an answer counts, in nats; here its posterior
        mean and standard deviation. Intervals are central, 90 %. A worker with one rate for both
        has it twice.

        For graded answers there are the shares ``if_same_...`` and ``if_different_...`` of every
        grade and of "unsure", and the weight of the highest grade minus that of the lowest. Other
        annotator models have a column for each of their sites, or a numbered column for each entry
        if a site has vectors.

        Of class labels there are ``accuracy``, the probability that the worker names the class of
        an item, and the number of ``labels``; ``confusion`` has the rest.
        """
        if self._stored is not None and self._stored.workers is not None:
            return self._stored.workers
        return workers_of(self)

    @CachedCopy
    def pages(self) -> pd.DataFrame:
        """One row per sorted page: the state of the page, and its errors.

        ``worker``, ``items`` and ``groups`` describe the page; ``sorted``, ``lumped`` and
        ``careless`` are the probabilities of its states; ``lumped_pairs`` is the expected number of
        pairs of clusters that share a group, ``misplaced`` the expected number of items outside of
        their cluster's group. Pages have no states if the items have no features.

        Raises
        ------
        ValueError
            If the model does not describe sorted pages.
        """
        return pages_of(self.data, self._partition)

    @property
    def class_probabilities(self) -> pd.DataFrame:
        """q(y_i = k) of every training item, by the user's ids of items and classes."""
        return self._by_class(self.probabilities, self.data.item_ids.rename("item"))

    def predict_class_probabilities(self, features: Any) -> pd.DataFrame:
        """q(y = k) of new items from their features, by class id."""
        index = features.index if isinstance(features, pd.DataFrame) else None
        return self._by_class(self.predict_proba(features), index)

    def _by_class(self, probabilities: np.ndarray, index: pd.Index | None) -> pd.DataFrame:
        if self.data.class_labels is None:
            raise ValueError(
                "the data have no class labels, so clusters have no class ids: for known labels "
                "use results.known_class_probabilities(result)"
            )
        return pd.DataFrame(probabilities, index, self.data.class_ids.rename("class"))

    @CachedCopy
    def confusion(self) -> pd.DataFrame:
        """``p(label | class)`` of every worker: posterior mean, deviation, central 90 % interval.

        One row per worker, class and label, with the user's ids as the index.
        """
        return confusion_of(self)

    def answer_probabilities(
        self,
        item: Int[np.ndarray, " answer"],
        worker: Int[np.ndarray, " answer"],
        label: Int[np.ndarray, " answer"],
    ) -> Float[np.ndarray, "answer class"]:
        """``p(label | class)`` of answers that the fit has not seen, given those that it has.

        Items, workers and labels are given by their positions in ``data``.
        """
        guide = with_verb(self.guide, SupportsAnswerProbabilities, "answer_probabilities")
        seen = full_batch(self.data).to(self.device, self.dtype).class_labels
        assert seen is not None  # a guide with this method was fitted to class labels
        asked = (torch.as_tensor(part, device=self.device) for part in (item, worker, label))
        return guide.answer_probabilities(seen, *asked).numpy(force=True)

    @CachedCopy
    def clusters(self) -> pd.DataFrame:
        """One row per cluster: expected items, share, weight E[pi_k], largest first.

        If a user-defined guide has no ``mixture()``, there are no weights, and clusters have the
        order of the model's z.
        """
        return self._partition.clusters()

    @CachedCopy
    def components(self) -> pd.DataFrame:
        """One row per cluster: means of its features, in their units and under their names.

        Categorical columns have the probability of every category, count vectors of a multinomial
        their shares. If components are on latents, the columns are the latent dimensions. A cluster
        that owns several components has their weighted mean.
        """
        return components_of(self, self._numbers)

    def to_arviz(self, num_draws: int = 500, **options: Any) -> Any:
        """Draws of the fit for ArviZ: ``diagnostics.to_arviz(self, num_draws, **options)``."""
        return to_arviz(self, num_draws, **options)


def check_fit(result: Any) -> None:
    """Raise a ``ValueError`` if the result is not a fit, such as draws or averages of classes."""
    if not all(hasattr(result, part) for part in ("model", "guide", "data")):
        raise ValueError(
            f"result is {type(result).__name__}, but must be a fit: for draws pass .fitted, for an "
            "average one of .members that is a fit"
        )
