"""What the history says of moves of components between clusters."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
import torch

from pyro_crowdclust.callbacks import OwnershipMoves, ownership_moves

from ..crowds import amortized_pair, crowd, plain_pair, quiet_fit


def test_clusters_in_use_have_a_hundredth_of_the_items(monkeypatch):
    moved = []
    monkeypatch.setattr(ownership_moves, "move_owners", lambda *arguments: moved.append(arguments))
    owners = torch.tensor([[1.0, 0.0, 0.0], [0.5, 0.5, 0.0], [0.0, 0.0, 1.0]])
    posteriors = {
        "weights": SimpleNamespace(natural_parameters=torch.tensor([0.96, 0.032, 0.008])),
        "owners": SimpleNamespace(mean=lambda: owners),
    }
    trainer = SimpleNamespace(
        epochs_done=1,
        answered="all answers",
        guide=SimpleNamespace(posteriors=posteriors),
        model=SimpleNamespace(weights=SimpleNamespace(mean=lambda eta: eta)),
        history=[{}],
    )
    OwnershipMoves()(trainer)
    assert moved == [(trainer.guide, "all answers", None)]
    assert trainer.history == [{"clusters_in_use": 2}]
    trainer.answered = None
    OwnershipMoves()(trainer)
    assert len(moved) == 1


@pytest.mark.parametrize("pair", [plain_pair, amortized_pair])
def test_a_fit_without_owners_is_refused(pair):
    with pytest.raises(ValueError, match="has no posterior of .*: give the model an ownership"):
        quiet_fit(*pair(), crowd(), epochs=1, callbacks=[OwnershipMoves()])
