"""The judge of structural moves: what it computes, what it keeps, what it leaves as it was."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial

import numpy as np
import pytest
import torch
from pyro.infer import Trace_ELBO

from pyro_crowdclust import CrowdData
from pyro_crowdclust.callbacks import Judge, Proposal, StructuralMoves
from pyro_crowdclust.emissions import Identity
from pyro_crowdclust.fitting import adam
from pyro_crowdclust.guides import MessagePassingGuide
from pyro_crowdclust.minibatches import MinibatchSampler, full_batch
from pyro_crowdclust.mixture import DirichletWeights, GaussianComponents
from pyro_crowdclust.models import SemiCrowdsourcedMixture
from pyro_crowdclust.starts import MixtureStart
from pyro_crowdclust.training import Trainer

from ..crowds import crowd, message_passing_pair, plain_pair, quiet_fit
from ..problems import randomize

ITEMS = 240


def three_clouds(cut: bool = True) -> tuple[CrowdData, torch.Tensor]:
    """Items of three clouds, and clusters, of which two share the first cloud."""
    cloud = torch.arange(ITEMS) % 3
    centers = torch.tensor([[-4.0, 0.0], [4.0, 0.0], [0.0, 6.0]])
    features = centers[cloud] + torch.randn(ITEMS, 2)
    odd = torch.arange(ITEMS) % 6 == 3
    return CrowdData(features), torch.where(odd, 3, cloud) if cut else cloud


def trainer_at(data: CrowdData, clusters: torch.Tensor, batch_size: int | None) -> Trainer:
    """A training run that stands at a partition."""
    components = GaussianComponents(4, 2)
    model = SemiCrowdsourcedMixture(DirichletWeights(4, 0.5), components, Identity())
    guide = MessagePassingGuide(model)
    observed = model.components.observe(torch.as_tensor(data.features))
    guide.start_at(MixtureStart(observed, torch.eye(4)[clusters], 1.0))
    sampler = None
    if batch_size is not None:
        generator = torch.Generator().manual_seed(3)
        sampler = MinibatchSampler(data, batch_size=batch_size, generator=generator)
    options = {"optim": adam, "step_size": 1.0, "dtype": torch.float64}
    return Trainer(model, guide, data, sampler, **options)


def bound(trainer: Trainer) -> float:
    elbo = Trace_ELBO(max_plate_nesting=1)
    return -elbo.loss(trainer.model, trainer.guide, full_batch(trainer.data))


def test_minibatches_of_a_whole_epoch_are_the_objective_of_all_data():
    """240 items, judged by 12 minibatches of 20: every item once, with its weight."""
    trainer = trainer_at(*three_clouds(), batch_size=20)
    judge = Judge(trainer, sample_size=239)
    values = judge.objective()
    assert len(values) == 12
    assert float(values.mean()) == pytest.approx(bound(trainer), rel=1e-12)
    # All data at once as soon as they are no more than asked for.
    whole = Judge(trainer, sample_size=240).objective()
    assert whole.tolist() == [pytest.approx(bound(trainer), rel=1e-12)]


def test_a_sample_holds_about_as_many_items_as_asked():
    trainer = trainer_at(*three_clouds(), batch_size=20)
    state = trainer.sampler.generator.get_state()
    assert len(Judge(trainer, sample_size=70).objective()) == 4
    assert torch.equal(trainer.sampler.generator.get_state(), state)


def test_what_a_sample_says_of_a_merge_is_what_it_gains():
    gains, data = [], three_clouds()
    for batch_size in (None, 20):
        trainer = trainer_at(*data, batch_size=batch_size)
        before = bound(trainer)
        gain = Judge(trainer, sample_size=120).attempt(partial(trainer.guide.merge, 0, 3))
        gains.append((gain, bound(trainer) - before))
    (judged, actual), (estimated, sampled) = gains
    assert judged == pytest.approx(actual, abs=1e-9)
    assert estimated == pytest.approx(sampled, rel=0.5)
    assert sampled == pytest.approx(actual, abs=1e-9)


@pytest.mark.parametrize("batch_size", [None, 20])
def test_a_loss_is_undone(batch_size):
    """Two clouds are no cluster; not a bit is left of having tried."""
    trainer = trainer_at(*three_clouds(cut=False), batch_size=batch_size)
    before = {name: tensor.clone() for name, tensor in trainer.tensors().items()}
    judge = Judge(trainer, sample_size=120)
    for refits in (0, 2):
        assert judge.attempt(partial(trainer.guide.merge, 0, 1), refits) is None
        assert judge.attempt(partial(trainer.guide.empty, 2), refits) is None
        assert all(torch.equal(before[name], t) for name, t in trainer.tensors().items())
        assert all(tensor.grad is None for tensor in trainer.tensors().values())


def test_a_gain_must_be_over_two_standard_errors():
    """The same change, judged by batches that agree and by batches that do not."""
    trainer = trainer_at(*three_clouds(), batch_size=20)
    judge = Judge(trainer, sample_size=239)
    noise = torch.tensor([1.0, -1.0] * 6)
    for gain, spread, kept in ((1.0, 1.4, True), (1.0, 2.0, False), (-1.0, 0.1, False)):
        values = iter([torch.zeros(12), gain + spread * noise])
        judge.objective = lambda values=values: next(values)
        found = judge.attempt(lambda: None)
        assert (found is not None) == kept
        if kept:
            assert found == pytest.approx(gain)


def test_a_change_must_also_beat_natural_steps_without_it():
    """From halfway, steps alone gain; a change that does nothing gains no more than they."""
    data, clusters = three_clouds()
    trainer = trainer_at(data, clusters.roll(1), batch_size=None)
    judge = Judge(trainer, sample_size=ITEMS)
    before = float(judge.objective())
    assert judge.attempt(lambda: None, refits=2) is None
    assert float(judge.objective()) == before
    judge._refit(2)
    assert float(judge.objective()) > before + 0.1


class HalfWay:
    """A training run whose natural steps go half of the way to the top of ``-(p - 3)^2``."""

    def __init__(self) -> None:
        self.guide = torch.zeros((), requires_grad=True)
        self.model, self.natural, self.elbo = None, self, self
        self.data, self.sampler = CrowdData(torch.zeros(2, 1)), None
        self.device, self.dtype = None, torch.float64
        self.draws: set[float] = set()

    def tensors(self) -> dict[str, torch.Tensor]:
        return {"p": self.guide}

    @torch.no_grad()
    def set_tensors(self, tensors: dict[str, torch.Tensor]) -> None:
        self.guide.copy_(tensors["p"])

    def differentiable_loss(self, model, guide, batch) -> torch.Tensor:
        self.draws.add(torch.rand(()).item())
        return (guide - 3).square()

    def loss(self, *arguments) -> float:
        return self.differentiable_loss(*arguments).item()

    def set_step_size(self, rate: float) -> None:
        self.rate = rate

    @torch.no_grad()
    def step(self) -> None:
        self.guide -= self.rate * self.guide.grad / 4


@pytest.mark.parametrize(
    ("change", "refits", "gain", "after"),
    [
        (1.0, 0, 5.0, 1.0),
        (1.0, 1, 8.0, 2.0),  # the change alone is lower than the step alone
        (-0.5, 1, None, 0.0),  # higher than before, by the step alone
        (1.0, 2, 8.75, 2.5),
    ],
)
def test_natural_steps_follow_a_change_and_are_kept_with_it(change, refits, gain, after):
    trainer = HalfWay()
    judge = Judge(trainer, 10)
    judge._batches *= 2  # which say the same
    found = judge.attempt(lambda: trainer.guide.add_(change), refits)
    assert found == (None if gain is None else pytest.approx(gain))
    assert trainer.guide.item() == pytest.approx(after)
    assert trainer.guide.grad is None
    # Whatever is drawn for a batch is the same in all of it.
    assert len(trainer.draws) == 2


def test_loss_terms_are_part_of_the_objective():
    """The recognition term of the guide, as training adds it."""
    model, guide = message_passing_pair()
    randomize(guide)
    options = {"optim": adam, "step_size": 1.0, "dtype": torch.float64}
    values = {}
    for weight in (0.0, 3.0, 6.0):
        guide.recognition_term.weight = weight
        trainer = Trainer(model, guide, crowd(), **options)
        values[weight] = float(Judge(trainer, 100).objective())
    assert values[3.0] != values[0.0]
    assert values[6.0] - values[0.0] == pytest.approx(2 * (values[3.0] - values[0.0]))


@dataclass
class Merges(StructuralMoves):
    """Proposes what it is told, and remembers what it was asked."""

    told: tuple[tuple[int, ...], ...] = ()
    asked: int = 0
    tried: list[tuple[int, ...]] = field(default_factory=list)

    column = "merges"

    def proposals(self, trainer):
        self.asked += 1
        return [Proposal(clusters) for clusters in self.told]

    def change(self, guide, proposal):
        self.tried.append(proposal.clusters)
        emptied = guide.merge(*proposal.clusters)
        return sum(proposal.clusters) - emptied, emptied


def test_a_cluster_is_emptied_once_an_epoch():
    """Three near clusters of one cloud: after 0 took 1, no proposal is about 1 again."""
    rng = np.random.default_rng(0)
    pairs = crowd().pairs
    data = CrowdData(rng.standard_normal((60, 4)), pairs)
    moves = Merges(told=((0, 1), (1, 2), (0, 2)))
    result = quiet_fit(
        *plain_pair(), data, epochs=1, batch_size=None, step_size=1.0, callbacks=[moves]
    )
    made = result.callbacks[0].moves
    assert len(made) == result.history["merges"][0] == 2
    emptied = [empty for _, _, empty, _ in made]
    assert len(set(emptied)) == 2
    kept = made[1][1]
    assert kept not in emptied
    assert result.callbacks[0].asked == 3
    assert not any(emptied[0] in proposal for proposal in result.callbacks[0].tried[1:])
