"""Searches, draws and starts that take little, for tests of what comes before or after them."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import pytest

from pyro_crowdclust import CrowdData
from pyro_crowdclust.guides import ClassLabelGuide
from pyro_crowdclust.interface.candidates.forms import Form
from pyro_crowdclust.interface.candidates.suited_forms import forms_for
from pyro_crowdclust.interface.recipe import seeds_of
from pyro_crowdclust.training import Stopping

# Where the library says how much is tried and drawn, and what is enough here.
LITTLE = {
    "pyro_crowdclust.interface.answers_alone.partition_search.TRIAL_EPOCHS": 8,
    "pyro_crowdclust.interface.answers_alone.partition_search._MAX_PARTS": 1,
    "pyro_crowdclust.interface.choosing.choice.SIZES": (2, 4, 8),
    "pyro_crowdclust.interface.choosing.trying.NUM_SPLITS": 1,
    "pyro_crowdclust.interface.choosing.shared_mistakes._MAX_ANSWERS": 0,
    "pyro_crowdclust.interface.choosing.fixed_components.WEIGHTS": (1.0, 0.5, 0.1),
    "pyro_crowdclust.interface.choosing.answer_predictiveness.TRIAL_EPOCHS": 20,
    "pyro_crowdclust.interface.choosing.trials.MAX_RIVALS": 1,
    "pyro_crowdclust.interface.candidates.weights.WEIGHTS": (1.0, 0.5, 0.1),
    "pyro_crowdclust.interface.answers_alone.pages_alone._PAGE_CHAINS": 4,
    "pyro_crowdclust.guides.answer_draws._STEPS": 15,
    "pyro_crowdclust.guides.partition._ANSWERS_OF_CHAINS": 0,
    "pyro_crowdclust.inference.pair_evidence._FIRST_ROUNDS": 10,
    "pyro_crowdclust.guides.partition._MAX_SWEEPS": 1,
    "pyro_crowdclust.guides.sorted_partition._SETTLING": (30, 10),
    "pyro_crowdclust.partitions.annealing._MIN_SWEEPS": 10,
    "pyro_crowdclust.partitions.annealing._MAX_SWEEPS": 10,
    "pyro_crowdclust.partitions.settling._CHAINS": 1,
    "pyro_crowdclust.partitions.settling._NUMBERS": [2, 3, 4, 6],
}
# People whose priors settle for fewer steps at the start.
EARLY_SETTLED = partial(ClassLabelGuide, start_steps=10)


def shorten(patch: pytest.MonkeyPatch) -> None:
    """Let choices of a model, and clusters from answers alone, try and draw little."""
    for name, little in LITTLE.items():
        patch.setattr(name, little)
    choosing = "pyro_crowdclust.interface.choosing"
    # Candidates end early, and the chosen one begins once.
    patch.setattr(f"{choosing}.trying.Stopping", lambda tolerance: Stopping(10 * tolerance))
    patch.setattr(f"{choosing}.choice.seeds_of", lambda *given: seeds_of(*given)[:1])
    settle_early(patch)


def settle_early(patch: pytest.MonkeyPatch) -> None:
    """Let fits to class labels begin where priors have settled for fewer steps."""
    for module in ("averaging", "candidates", "infer_classes", "search"):
        patch.setattr(
            f"pyro_crowdclust.interface.class_labels.{module}.ClassLabelGuide", EARLY_SETTLED
        )


def try_forms(patch: pytest.MonkeyPatch, wanted: Callable[[Form], bool]) -> None:
    """Let choices of a model try no other forms than these."""

    def some(data: CrowdData) -> tuple[Form, ...]:
        return tuple(filter(wanted, forms_for(data)))

    patch.setattr("pyro_crowdclust.interface.choosing.choice.forms_for", some)
