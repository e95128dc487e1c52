"""Advice about must-links that alone make one cluster of what the features tell apart."""

from __future__ import annotations

import numpy as np
from jaxtyping import Int
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from pyro_crowdclust.errors import listed
from pyro_crowdclust.mixture.overlap import groups_by_overlap
from pyro_crowdclust.results import Fitted

# A part of a cluster counts if it has at least this share of all items.
_LARGE = 0.1
# So many links are named.
_NAMED = 3


def about_single_links(result: Fitted) -> list[str]:
    """Advice where a cluster would fall into large parts without a single must-link.

    A graph has the components of the mixture as nodes, those that overlap as one
    (``groups_by_overlap``), and the must-links within clusters as edges. A bridge of it, whose
    removal leaves a tenth of the items or more on either side, is the only link that says that
    these two are one: a mistake there costs a cluster.
    """
    data = result.data
    if data.links is None or data.has_answers or result.owners is None:
        return []
    q = result.component_probabilities
    node = groups_by_overlap(q)[q.argmax(1)].numpy()
    is_inside = result.assignments[data.links.left] == result.assignments[data.links.right]
    kept = data.links.must.numpy() & is_inside
    links = np.stack([data.links.left.numpy(), data.links.right.numpy()])[:, kept]
    ends = np.sort(node[links], axis=0)
    _, pair, count = np.unique(ends, axis=1, return_inverse=True, return_counts=True)
    only = np.flatnonzero((count[pair.reshape(-1)] == 1) & (ends[0] != ends[1])).tolist()
    places = [place for place in only if _parts_are_large(node, links, place)]
    found = [links[:, place] for place in places]
    if not found:
        return []
    names = [tuple(data.item_ids[items].tolist()) for items in found]
    them = "it" if len(found) == 1 else "each"
    return [
        "the features tell items apart that only single must-links join to one cluster: check "
        f"{listed(names, _NAMED)}, and add a link that confirms {them}, or leave {them} out"
    ]


def _parts_are_large(
    node: Int[np.ndarray, " item"], links: Int[np.ndarray, "2 link"], place: int
) -> bool:
    """Whether the ends of a link are in two large parts that no other links join."""
    others = node[np.delete(links, place, axis=1)]
    number = int(node.max()) + 1
    graph = coo_array((np.ones(others.shape[1]), (others[0], others[1])), shape=(number, number))
    part = connected_components(graph, directed=False)[1][node]
    first, second = part[links[:, place]]
    sizes = np.bincount(part) / len(node)
    return bool(first != second and min(sizes[first], sizes[second]) >= _LARGE)
