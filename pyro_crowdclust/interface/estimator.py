"""``cluster`` as a scikit-learn estimator, for grid searches and pipelines.

Unlike in the rest of the library, names here are those of scikit-learn (``n_clusters``,
``random_state``, attributes that end in ``_``).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Iterable, Mapping
from numbers import Integral, Real
from typing import Any, Self

import numpy as np
import pandas as pd
from jaxtyping import Float, Int
from numpy.typing import ArrayLike
from sklearn.base import (
    BaseEstimator,
    ClassNamePrefixFeaturesOutMixin,
    ClusterMixin,
    TransformerMixin,
)
from sklearn.utils import Tags, check_random_state
from sklearn.utils.validation import check_is_fitted, validate_data

from pyro_crowdclust.data import CrowdData
from pyro_crowdclust.data.tables import in_pandas, to_index
from pyro_crowdclust.errors import check_whole
from pyro_crowdclust.interface.clustering import recipe_for
from pyro_crowdclust.interface.networks import Networks
from pyro_crowdclust.interface.tables_of_rows import (
    among,
    check_rows,
    in_memory,
    labels_among,
    warn_if_cut,
)
from pyro_crowdclust.mixture import Components
from pyro_crowdclust.protocols import SupportsPartition
from pyro_crowdclust.results import Fitted
from pyro_crowdclust.results.feature_density import mean_log_density
from pyro_crowdclust.training import Ending, Stopping


class CrowdClusterer(
    ClassNamePrefixFeaturesOutMixin, TransformerMixin, ClusterMixin, BaseEstimator
):
    """Clusters rows of a table by their values and by people's answers about pairs of rows.

    Parameters
    ----------
    n_clusters
        An upper bound on the number of clusters; those that are not needed stay empty. None: chosen
        from the data, or 10 if ``components`` or ``networks`` is given.
    components
        A class or function that makes the components from the numbers of clusters and features,
        such as ``PoissonComponents`` for counts; see ``mixture_for``. None: ``choice_for`` chooses
        what suits the columns.
    networks
        None for tables, ``DeepNormal()`` for many real features, ``DeepBernoulli()`` for pixels in
        [0, 1].
    n_init
        Number of starts; the fit with the largest ELBO is kept.
    max_iter
        Largest number of epochs; None: the default of the model.
    tol
        Training has converged once the ELBO per item gains less than this, in nats, in five epochs;
        None: the default of the model.
    random_state
        An integer gives the same fit every time; None, or a ``RandomState``, a different one.
    verbose
        Show a progress bar.
    ignore_other_items
        Leave out answers, links and labels about items that are not in X, as is necessary in
        cross-validation, which fits to some of the items; otherwise they are an error. Arrays need
        ``item_ids``.

    Attributes
    ----------
    labels_
        Cluster of every item of the fit, given its features and the answers about it. Clusters are
        numbered from the largest to the smallest.
    n_clusters_in_use_
        Number of clusters that have items; labels are smaller than this.
    workers_
        A data frame, one row per worker: posterior mean, standard deviation and 90 % interval of
        sensitivity and specificity, or of the shares of grades, and the weight. None without
        answers.
    clusters_
        A data frame, one row per cluster, in the order of the labels.
    result_
        The ``Fitted`` with everything else.
    n_iter_, converged_
        Number of epochs, and whether training ended because the ELBO stopped rising.
    n_features_in_, feature_names_in_
        As in all estimators of scikit-learn.

    Examples
    --------
    >>> import pandas as pd
    >>> birds = pd.DataFrame(
    ...     {"length": [14.0, 13.5, 14.2, 24.0, 25.0], "wing": [22.5, 23.0, 22.0, 38.0, 37.0]},
    ...     index=["robin", "wren", "dunnock", "thrush", "blackbird"],
    ... )
    >>> answers = pd.DataFrame(
    ...     [("robin", "wren", "ann", 1), ("robin", "thrush", "ann", 0)],
    ...     columns=["left", "right", "worker", "label"],
    ... )
    >>> clusterer = CrowdClusterer(n_clusters=2, random_state=0).fit(birds, pairs=answers)
    >>> clusterer.labels_
    array([0, 0, 0, 1, 1])
    >>> clusterer.predict(birds.tail(1))
    array([1])
    """

    def __init__(
        self,
        n_clusters: int | None = None,
        *,
        components: Callable[[int, int], Components] | None = None,
        networks: Networks | None = None,
        n_init: int = 3,
        max_iter: int | None = None,
        tol: float | None = None,
        random_state: int | np.random.RandomState | None = None,
        verbose: bool = False,
        ignore_other_items: bool = False,
    ) -> None:
        self.n_clusters = n_clusters
        self.components = components
        self.networks = networks
        self.n_init = n_init
        self.max_iter = max_iter
        self.tol = tol
        self.random_state = random_state
        self.verbose = verbose
        self.ignore_other_items = ignore_other_items

    def fit(
        self,
        X: ArrayLike | None,
        y: None = None,
        *,
        pairs: Any | None = None,
        placements: Any | None = None,
        grades: Iterable[Hashable] | int | None = None,
        item_ids: Iterable[Hashable] | None = None,
        known: Any | None = None,
        must_link: Any | None = None,
        cannot_link: Any | None = None,
        kinds: Mapping[Hashable, str] | None = None,
        likeness: Any | None = None,
    ) -> Self:
        """Cluster the rows of X.

        Parameters
        ----------
        X
            Numbers of shape ``[item, feature]``, dense or sparse, or a data frame, whose columns
            may also hold yes and no, counts and categories, and whose index holds the ids of the
            items. NaN and empty cells are missing, and are integrated out. None if there are only
            answers; ``n_clusters`` must then be None, too.
        y
            Ignored, also if it holds classes, as scikit-learn wants it of clusterers; pass classes
            that are sure as ``known``.
        pairs
            Answers, with the columns ``left, right, worker, label`` and optionally ``page``; see
            ``CrowdData``. Items are named by their ids, or by row numbers without ids. In a
            pipeline: ``fit(X, crowdclusterer__pairs=pairs)``.
        placements
            Instead of ``pairs``: pages that people sorted, with the columns ``page, item, worker,
            group``; see ``CrowdData``.
        grades
            If the labels of ``pairs`` are grades: all grades, from "different" to "same"; see
            ``CrowdData``.
        item_ids
            Ids of the rows if X has no index, for instance after a step of a pipeline that returns
            an array.
        known, must_link, cannot_link
            Labels of some items, None or -1 for the others, and tables of pairs that must or cannot
            share a cluster; as for ``CrowdData``.
        kinds
            What columns of a data frame hold, if not inferred correctly; as for ``CrowdData``.
        likeness
            Without X: numbers that say how similar the items of pairs are; as for ``CrowdData``.

        Raises
        ------
        ValueError
            If a parameter is out of its range, and where ``CrowdData`` raises one.
        """
        self._check_parameters()
        if isinstance(y, pd.DataFrame) and {"left", "right"} <= {*y.columns}:
            raise ValueError("y is ignored, but is a table of answers: pass it by name, as pairs=y")
        if item_ids is None and isinstance(X, pd.DataFrame):
            item_ids = X.index
        features: Any = None if X is None else self._read(X, reset=True)
        if self.ignore_other_items and features is not None:
            every: Any = range(len(features)) if item_ids is None else item_ids
            ids = to_index(every, "item_ids").unique()
            tables = (pairs, placements, must_link, cannot_link)
            for table in tables:
                warn_if_cut(table, ids)
            if item_ids is None:
                check_rows(ids, known, *tables)
            pairs, placements, must_link, cannot_link = (among(table, ids) for table in tables)
            known = labels_among(known, ids)
        recipe = recipe_for(
            CrowdData(
                features,
                pairs,
                placements=placements,
                grades=grades,
                item_ids=item_ids,
                known=known,
                must_link=must_link,
                cannot_link=cannot_link,
                kinds=kinds,
                likeness=likeness,
            ),
            num_clusters=self.n_clusters,
            components=self.components,
            networks=self.networks,
        )
        options: dict[str, Any] = {"progress": bool(self.verbose)}
        if self.max_iter is not None:
            options["epochs"] = self.max_iter
        if self.tol is not None:
            options["stopping"] = Stopping(self.tol)
        seed = self.random_state
        if not isinstance(seed, Integral):
            seed = check_random_state(seed).randint(2**31 - self.n_init)
        self.result_ = recipe.fit(num_starts=self.n_init, seed=int(seed), **options)
        self._set_attributes(self.result_)
        return self

    def _check_parameters(self) -> None:
        check_whole("n_init", self.n_init, least=1)
        for name in ("n_clusters", "max_iter"):
            if getattr(self, name) is not None:
                check_whole(name, getattr(self, name), least=1)
        if self.tol is not None and not (isinstance(self.tol, Real) and self.tol > 0):
            raise ValueError(f"tol is {self.tol!r}, but must be a number above 0, or None")

    def _set_attributes(self, result: Fitted) -> None:
        self.labels_ = result.assignments
        self.clusters_ = result.clusters
        self.n_clusters_in_use_ = int((self.clusters_["assigned_items"] > 0).sum())
        self.workers_ = result.workers if result.data.has_answers else None
        self.n_iter_ = len(result.history)
        self.converged_ = Ending.CONVERGED.is_of(result.stop_reason)

    def predict(self, X: ArrayLike) -> Int[np.ndarray, " item"]:
        """The most probable cluster of new items, from their features alone."""
        return self.predict_proba(X).argmax(1)

    def predict_proba(self, X: ArrayLike) -> Float[np.ndarray, "item cluster"]:
        """Probabilities of the clusters of new items, columns in the order of the labels."""
        self._check_predicts()
        return self.result_.predict_proba(self._read(X, reset=False))

    def transform(self, X: ArrayLike) -> Float[np.ndarray, "item dim"]:
        """Latent means of new items; without networks, the coordinates on which clusters are."""
        new = self._new_items(X)
        if self.networks is None:
            emission = self.result_.model.emission
            return emission.latent(new.all_rows()).numpy()
        return self.result_.transform(X)

    def score(self, X: ArrayLike, y: None = None) -> float:
        """Mean over items of ``E_q[log p(o, x, z) - log q(x, z)] <= log p(o)``, in nats.

        A lower bound on the log-density of the items' features, at the posterior of weights and
        components; larger is better. Features count fully, as they do in the fit, even if they
        count less than answers in the result (``feature_weight``).

        Parameters
        ----------
        X
            Items, those of the fit or new ones.
        y
            Ignored.

        Raises
        ------
        ValueError
            If clusters are regressed on the features, or are a partition of the items: there is no
            density of features then.
        """
        return mean_log_density(self.result_, self._new_items(X))

    def _new_items(self, X: ArrayLike) -> CrowdData:
        self._check_predicts()
        return self.result_.new_items(self._read(X, reset=False))

    def _check_predicts(self) -> None:
        """Raise a ``ValueError`` if clusters are a partition, which holds no other items."""
        check_is_fitted(self)
        if isinstance(self.result_.guide, SupportsPartition):
            raise ValueError(
                "the clusters of this fit are a partition of its own items, of which nothing "
                "follows about the features of others: read labels_, or pass n_clusters= and "
                "features to fit a mixture"
            )

    def _read(self, X: ArrayLike, reset: bool) -> Float[np.ndarray, "item feature"] | pd.DataFrame:
        """Numbers, or a data frame as it is, after scikit-learn's checks."""
        X = in_memory(in_pandas(X))
        if isinstance(X, pd.DataFrame):
            validate_data(self, X, reset=reset, skip_check_array=True)
            if len(X) < 2 and reset:
                raise ValueError(f"Found array with {len(X)} sample(s), but 2 or more are needed")
            return X
        return validate_data(
            self,
            X,
            reset=reset,
            dtype=[np.float64, np.float32],
            ensure_all_finite="allow-nan",
            ensure_min_samples=2 if reset else 1,
        )

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        tags.input_tags.sparse = True
        return tags

    @property
    def _n_features_out(self) -> int:
        self._check_predicts()
        model = self.result_.model
        if self.networks is not None:
            return model.components.num_features
        return model.emission.latent_size(math.prod(self.result_.feature_shape or ()))
