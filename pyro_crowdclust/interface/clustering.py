"""``cluster``: clusters items in one call, with a chosen or a given model."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping
from typing import Any

from pyro_crowdclust import CrowdData, Fitted
from pyro_crowdclust.errors import check_whole
from pyro_crowdclust.interface.about_data import as_answered, feature_shape, is_supervised
from pyro_crowdclust.interface.answers_alone.partition_search import AnswersAlone
from pyro_crowdclust.interface.answers_alone.records import are_records
from pyro_crowdclust.interface.choosing.choice import Choice, choice_for
from pyro_crowdclust.interface.mixtures import mixture_for
from pyro_crowdclust.interface.networks import Networks
from pyro_crowdclust.interface.option_checks import check_options
from pyro_crowdclust.interface.recipe import Recipe
from pyro_crowdclust.mixture import Components
from pyro_crowdclust.supervision import Supervision


def cluster(
    features: Any,
    pairs: Any | None = None,
    *,
    placements: Any | None = None,
    grades: Iterable[Hashable] | int | None = None,
    item_ids: Iterable[Hashable] | None = None,
    known: Any | None = None,
    must_link: Any | None = None,
    cannot_link: Any | None = None,
    kinds: Mapping[Hashable, str] | None = None,
    likeness: Any | None = None,
    num_clusters: int | None = None,
    components: Callable[[int, int], Components] | None = None,
    networks: Networks | None = None,
    supervision: Supervision | None = None,
    n_clusters: int | None = None,
    **options: Any,
) -> Fitted:
    """Cluster items by features and answers: ``recipe_for(CrowdData(...), ...).fit(...)``.

    Parameters
    ----------
    features, pairs, placements, grades, item_ids, known, must_link, cannot_link, kinds, likeness
        As for ``CrowdData``; or ``features`` is one already, and the others are not given.
    num_clusters, components, networks, supervision
        As for ``recipe_for``.
    n_clusters
        The name of ``num_clusters`` in scikit-learn.
    options
        As for ``Choice.fit`` or ``Recipe.fit``: ``num_starts``, and the options of ``fit``.

    Raises
    ------
    TypeError
        For an unknown argument.
    ValueError
        If both ``n_clusters`` and ``num_clusters`` are given and differ, and where ``CrowdData``,
        ``mixture_for`` or ``fit`` raise one; for tables beside a ``CrowdData``, and for a
        ``CrowdData`` with class labels.

    Examples
    --------
    >>> import numpy as np
    >>> features = np.random.default_rng(0).normal(size=(60, 2)) + 8 * (np.arange(60) % 2)[:, None]
    >>> answers = {"left": [0, 0, 1], "right": [2, 1, 3], "worker": list("aab"), "label": [1, 0, 1]}
    >>> result = cluster(features, answers, num_clusters=4, progress=False)
    >>> sorted(np.unique(result.assignments, return_counts=True)[1].tolist())
    [30, 30]
    >>> result.workers.index.tolist()
    ['a', 'b']
    """
    check_options(cluster, options, {"num_starts"})
    if n_clusters is not None:
        if num_clusters not in (None, n_clusters):
            raise ValueError(
                f"n_clusters is {n_clusters} and num_clusters is {num_clusters}, but these are two "
                "names of one argument: pass one of them"
            )
        num_clusters = n_clusters
    tables = {
        "pairs": pairs,
        "placements": placements,
        "grades": grades,
        "item_ids": item_ids,
        "known": known,
        "must_link": must_link,
        "cannot_link": cannot_link,
        "kinds": kinds,
        "likeness": likeness,
    }
    recipe = recipe_for(
        _as_data(features, tables),
        num_clusters=num_clusters,
        components=components,
        networks=networks,
        supervision=supervision,
    )
    return recipe.fit(**options)


def _as_data(features: Any, tables: Mapping[str, Any]) -> CrowdData:
    """The data of the call, which may be a ``CrowdData`` already."""
    if not isinstance(features, CrowdData):
        return CrowdData(features, **tables)
    given = [name for name, table in tables.items() if table is not None]
    if given:
        raise ValueError(
            f"{', '.join(given)} beside a CrowdData, which holds all tables: pass cluster either "
            "the tables or the CrowdData; new answers to a fit are for result.update"
        )
    if features.class_labels is not None:
        raise ValueError(
            "the CrowdData has class labels, which cluster does not read: pass the tables to "
            "classify(features, labels), or leave the labels out"
        )
    return features


def recipe_for(
    data: CrowdData,
    *,
    num_clusters: int | None = None,
    components: Callable[[int, int], Components] | None = None,
    networks: Networks | None = None,
    supervision: Supervision | None = None,
) -> Choice | AnswersAlone | Recipe:
    """What to fit to some data: a choice among models, or the ``Recipe`` of the given one.

    Parameters
    ----------
    data
        Items with features, and answers, labels or links, if there are any.
    num_clusters
        An upper bound on the number of clusters. With answers a cluster may own several components;
        without any, and where the model is given, it bounds the components, too. Default: chosen
        together with the model, or 10 if the model is given. Without features the number follows
        from the answers, and none may be given. If it is given, items are not treated as records,
        which have more clusters than a mixture has components (``AnswersAlone``).
    components, networks, supervision
        As for ``mixture_for``. If any of them is given, nothing is chosen.
    """
    if num_clusters is not None:
        check_whole("num_clusters", num_clusters)
    if data.likeness is not None and data.features is not None:
        raise ValueError(
            "likeness is used only where there are no features, but features are given: pass None "
            "as features, or leave likeness out"
        )
    is_fixed = any(part is not None for part in (components, networks, supervision))
    if data.features is None and data.has_answers and not is_fixed:
        return _answers_alone(data, num_clusters)
    if not is_fixed:
        feature_shape(data)  # raises where no mixture could use the features
        if num_clusters is None and not is_supervised(data) and are_records(data):
            return AnswersAlone(data)
        return choice_for(data, num_clusters=num_clusters)
    return mixture_for(
        data,
        num_clusters=10 if num_clusters is None else num_clusters,
        components=components,
        networks=networks,
        supervision=supervision,
    )


def _answers_alone(data: CrowdData, num_clusters: int | None) -> AnswersAlone:
    """What to fit without features."""
    if num_clusters is not None:
        raise ValueError(
            f"num_clusters is {num_clusters}, but without features the number of clusters is found "
            "from the answers: leave it out"
        )
    if data.known is not None or data.links is not None:
        raise ValueError(
            "known labels and links need features: pass features, or leave out known labels and "
            "links"
        )
    has_pairs = data.answers is not None
    # Likeness describes pairs, so that answers stay pairs, whatever page they were on.
    data = as_answered(data) if data.likeness is None else data
    if data.placements is not None and not data.placements.num_pairs:
        raise ValueError(
            "every page has a single item, so that nobody said which items belong together: pass "
            "pages of several items, or features"
        )
    as_fitted = data.with_unshared_pages_as_pairs()
    if as_fitted.placements is None and as_fitted.num_pairs < 2:
        raise ValueError(
            "there is only one answer, but without features some answers must be held out: collect "
            "more answers, or pass features"
        )
    if as_fitted.placements is None and as_fitted.is_sorted and len(data.page_ids) < 2:
        as_pairs = (
            "drop the column 'page' of pairs"
            if has_pairs
            else "pass its pairs, CrowdData(None, placements=table).as_pairs().pairs.drop(columns="
            "'page')"
        )
        raise ValueError(
            "there is only one sorted page, but without features some pages must be held out: "
            "collect more pages, or pass features; or, if all its pairs may count as answers on "
            f"their own, {as_pairs}"
        )
    return AnswersAlone(data)
