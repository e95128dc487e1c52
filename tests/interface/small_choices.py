"""Data that a choice is made for in seconds, and choices of few candidates."""

from __future__ import annotations

import dataclasses

import numpy as np
import pandas as pd

from pyro_crowdclust import CrowdData
from pyro_crowdclust.interface import choice_for
from pyro_crowdclust.interface.choosing.choice import Choice
from pyro_crowdclust.simulation import simulate_pairs

PAIRS = {"left": [0, 1, 0], "right": [2, 3, 1], "worker": list("aab"), "label": [1, 1, 0]}
LINK = {"left": [0], "right": [2]}


def two_groups(num_items: int = 40) -> np.ndarray:
    groups = np.arange(num_items) % 2
    return 6.0 * groups[:, None] + np.random.default_rng(0).normal(size=(num_items, 3))


def two_rings(num_items: int = 240) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    ring = np.arange(num_items) % 2
    angle = rng.uniform(0, 2 * np.pi, num_items)
    radius = 1 + 2 * ring + 0.15 * rng.normal(size=num_items)
    return np.stack([radius * np.cos(angle), radius * np.sin(angle)], 1), ring


def answered(
    features: np.ndarray, kinds: np.ndarray, number: int = 120, items: range | None = None
) -> CrowdData:
    """So many answers of each of three workers, about all of the items or some."""
    rates, options = [0.9] * 3, {"pairs_per_worker": number, "items": items, "seed": 0}
    return CrowdData(features, simulate_pairs(kinds, rates, rates, **options))


def small(data: CrowdData, *sizes: int, forms: int = 2) -> Choice:
    choice = choice_for(data)
    by_features = choice.by_features and small(choice.by_features.data, *sizes, forms=forms)
    changes = {"sizes": sizes, "first_size": sizes[0], "by_features": by_features}
    return dataclasses.replace(choice, forms=choice.forms[:forms], **changes)


def known_part(kinds: np.ndarray) -> dict:
    return {"known": [kind if place % 4 else None for place, kind in enumerate(kinds)]}


def linked_part(kinds: np.ndarray) -> dict:
    items = np.arange(24)
    links = pd.DataFrame({"left": items[:-1], "right": items[1:]})
    same = kinds[links["left"]] == kinds[links["right"]]
    must = pd.DataFrame({"left": items[:-3], "right": items[3:]})
    return {"must_link": must, "cannot_link": links[~same]}


def sorted_part(kinds: np.ndarray) -> dict:
    items = np.arange(24)
    page = pd.DataFrame({"page": items // 12, "item": items, "group": kinds[:24]})
    return {"placements": page.assign(worker=page["page"])}


def wide_clusters(num_items: int = 90, dim: int = 12) -> tuple[np.ndarray, np.ndarray]:
    """Columns that depend on each other, so many that a prior as wide as the data wins."""
    rng = np.random.default_rng(0)
    kinds = np.arange(num_items) % 3
    noise = rng.normal(size=(num_items, 4)) @ rng.normal(size=(4, dim))
    noise += 0.2 * rng.normal(size=(num_items, dim))
    return 2.5 * rng.normal(size=(3, dim))[kinds] + noise, kinds


def misleading(num_items: int = 80) -> tuple[np.ndarray, np.ndarray]:
    """Features that show other clusters than people see: they are sure, and right by chance."""
    seen, said = np.arange(num_items) % 2, np.arange(num_items) // 2 % 2
    noise = np.random.default_rng(0).normal(size=(num_items, 2))
    return 6.0 * seen[:, None] + noise, said
