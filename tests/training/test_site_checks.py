"""What sites of a model take for data; whose model takes a minibatch for all is told."""

from __future__ import annotations

import dataclasses
from contextlib import nullcontext
from functools import partial

import pyro
import pyro.distributions as dist
import pytest
import torch
from pyro import poutine
from pyro.infer.autoguide import (
    AutoDelta,
    AutoDiagonalNormal,
    AutoMultivariateNormal,
    AutoNormal,
)
from torch import nn

from pyro_crowdclust import CrowdData, load
from pyro_crowdclust.guides import EnumeratedGuide
from pyro_crowdclust.minibatches import ItemPlate, full_batch

from ..crowds import crowd, quiet_fit
from ..plain_pyro import noise_around
from ..problems import location_model


@pytest.mark.filterwarnings("ignore:Found non-auxiliary vars in guide")  # Pyro's
def test_what_a_guide_makes_of_its_parameters_is_no_data():
    def guide(batch):
        center = pyro.deterministic("center", pyro.param("start", torch.tensor(0.0)))
        pyro.sample("mean", dist.Normal(center, 0.1))

    result = quiet_fit(location_model, guide, noise_around(3.0))
    assert list(result.to_arviz(2)["posterior"].data_vars) == ["mean"]


def test_a_plain_number_may_be_observed():
    def model(batch):
        location_model(batch)
        rate = pyro.sample("rate", dist.Normal(0.0, 1.0))
        pyro.sample("said", dist.Normal(rate, 1.0, validate_args=False), obs=1.0)

    result = quiet_fit(model, AutoDelta(model), noise_around(3.0))
    assert "rate" in result.guide.median()


class TestLatentsOfItems:
    """Autoguides have a row for every item, and must be told which of them a batch holds."""

    DATA = CrowdData(torch.randn(20, 1, generator=torch.Generator().manual_seed(0)))

    @staticmethod
    def plate(batch):
        return pyro.plate("items", batch.num_items, subsample=batch.items)

    def model(self, batch):
        mean = pyro.sample("mean", dist.Normal(0.0, 1.0))
        with self.plate(batch):
            h = pyro.sample("h", dist.Normal(mean, 1.0))
            z = pyro.sample("z", dist.Categorical(torch.ones(2)), infer={"enumerate": "parallel"})
            pyro.sample("o", dist.Normal(h + z, 1.0), obs=batch.features[:, 0])

    def fitted(self, kind, batch_size=5, wrap=False, **options):
        guide = kind(poutine.block(self.model, hide=["z"]), **options)
        guide = EnumeratedGuide(self.model, guide) if wrap else guide
        return quiet_fit(self.model, guide, self.DATA, batch_size=batch_size)

    @pytest.mark.parametrize("kind", [AutoNormal, AutoDelta, AutoMultivariateNormal])
    @pytest.mark.parametrize("wrap", [False, True])
    def test_a_guide_that_chooses_items_by_itself_is_refused(self, kind, wrap):
        said = (
            r"'h' of other items than .* create_plates=lambda batch: minibatches.ItemPlate\('items'"
        )
        with pytest.raises(ValueError, match=said):
            self.fitted(kind, wrap=wrap)

    @pytest.mark.parametrize("wrap", [False, True])
    @pytest.mark.parametrize(
        ("kind", "batch_size", "told"),
        [(AutoNormal, 5, True), (AutoNormal, None, False), (AutoDiagonalNormal, None, False)],
    )
    def test_others_are_fitted(self, kind, batch_size, told, wrap):
        options = {"create_plates": self.plate} if told else {}
        result = self.fitted(kind, batch_size, wrap, **options)
        assert result.probabilities.shape == (20, 2)

    def test_all_items_are_not_some_of_them(self):
        of_all = AutoNormal(poutine.block(self.model, hide=["z"]))
        with pyro.get_param_store().scope():
            guide = EnumeratedGuide(self.model, of_all)
            guide(full_batch(CrowdData(self.DATA.features)))
            some = dataclasses.replace(full_batch(CrowdData(self.DATA.features[:5])), num_items=20)
            with pytest.raises(ValueError, match="draws 20 items, and the batch has 5: pass"):
                guide.infer(some)


class TestOrderOfRows:
    """Pyro's plate of all items does not index parameters, though the batch has another order."""

    FEATURES = torch.randn(6, 1, generator=torch.Generator().manual_seed(0)).double()

    @staticmethod
    def pairs_of(*items):
        left, right = items
        return {"left": [left], "right": [right], "worker": [0], "label": [1]}

    @staticmethod
    def plate(batch):
        return pyro.plate("items", batch.num_items, subsample=batch.items)

    @staticmethod
    def by_length(batch):
        return pyro.plate("items", len(batch.items))

    @staticmethod
    def model(plate, batch):
        with plate(batch):
            h = pyro.sample("h", dist.Normal(torch.zeros((), dtype=torch.float64), 1.0))
            pyro.sample("o", dist.Normal(h, 1.0), obs=batch.features[:, 0])

    @staticmethod
    def by_param(plate, batch):
        with plate(batch):
            loc = pyro.param("loc", torch.zeros(6, dtype=torch.float64), event_dim=0)
            pyro.sample("h", dist.Normal(loc, 1.0))

    def fitted(self, model, guide, items=(5, 3), **options):
        data = CrowdData(self.FEATURES, self.pairs_of(*items))
        return quiet_fit(model, guide, data, epochs=1, **{"batch_size": None, **options})

    @pytest.mark.parametrize("kind", [AutoNormal, AutoDelta])
    @pytest.mark.parametrize("of_model", ["plate", "by_length"])
    @pytest.mark.parametrize("is_told", [True, False])
    def test_rows_of_autoguides_are_refused(self, kind, of_model, is_told):
        model = partial(self.model, getattr(self, of_model))
        guide = kind(model, create_plates=self.plate if is_told else None)
        said = (
            r"rows of '.*h' in the order of this batch.*ItemPlate\('items', batch\) as this plate"
        )
        with pytest.raises(ValueError, match=said):
            self.fitted(model, guide)
        own = kind(model, create_plates=partial(ItemPlate, "items"))
        self.fitted(model, own)

    @pytest.mark.parametrize("name", ["plate", "by_length"])
    def test_rows_of_own_parameters_are_refused(self, name):
        model = partial(self.model, self.plate)
        with pytest.raises(ValueError, match="rows of 'loc' in the order of this batch"):
            self.fitted(model, partial(self.by_param, getattr(self, name)))
        self.fitted(model, partial(self.by_param, partial(ItemPlate, "items")))

    def test_so_are_those_of_models_that_need_answers(self):
        def model(batch):
            self.model(self.plate, batch)
            with pyro.plate("pairs", batch.num_pairs):
                pyro.sample("label", dist.Bernoulli(0.5), obs=batch.label)

        with pytest.raises(ValueError, match="in the order of this batch"):
            self.fitted(model, AutoNormal(model))

    def test_are_allowed_where_items_with_answers_come_first(self):
        model = partial(self.model, self.plate)
        self.fitted(model, AutoNormal(model, create_plates=self.plate), items=(1, 0))

    def test_as_many_workers_as_items_are_no_items(self):
        def model(batch):
            with pyro.plate("workers", 6):
                bias = pyro.sample("bias", dist.Normal(0.0, 1.0))
            with self.plate(batch):
                pyro.sample("o", dist.Normal(bias.sum(), 1.0), obs=batch.features[:, 0])

        self.fitted(model, AutoNormal(model))

    @pytest.mark.parametrize("plate", ["plate", "by_length"])
    def test_minibatches_need_the_plate_of_the_library_in_the_model_too(self, plate):
        """Some items have answers, and the others do not, so that their weights differ."""

        def model(batch):
            with poutine.scale(scale=batch.item_weight):
                self.model(self.by_length, batch)

        whole = {"plate": self.plate, "by_length": partial(ItemPlate, "items")}[plate]
        guide = AutoNormal(model, create_plates=whole)
        said = r"use minibatches.ItemPlate\(.*, batch\).* in the model"
        said = said if plate == "by_length" else r"ItemPlate\(name, batch\) as the plate"
        with pytest.raises(ValueError, match=said):
            self.fitted(model, guide, batch_size=2)


class TestModelsThatTakeAMinibatchForAll:
    """How many items there are is told by weights, which a model of one's own may forget."""

    DATA = CrowdData(torch.randn(20, 1, generator=torch.Generator().manual_seed(0)))

    @staticmethod
    def by_factor(batch):
        mean = pyro.sample("mean", dist.Normal(0.0, 1.0))
        with pyro.plate("items", len(batch.items)):
            density = dist.Normal(mean, 1.0).log_prob(batch.features[:, 0])
            pyro.factor("o", batch.item_weight * density)

    @staticmethod
    def by_plate(batch):
        mean = pyro.sample("mean", dist.Normal(0.0, 1.0))
        with pyro.plate("items", batch.num_items, subsample=batch.items):
            pyro.sample("o", dist.Normal(mean, 1.0), obs=batch.features[:, 0])

    @staticmethod
    def of_items_alone(batch):
        with pyro.plate("items", len(batch.items)):
            mean = pyro.sample("mean", dist.Normal(0.0, 1.0))
            pyro.sample("o", dist.Normal(mean, 1.0), obs=batch.features[:, 0])

    @staticmethod
    def of_each(batch):
        scale = pyro.param("scale", torch.tensor(0.7))
        with pyro.plate("items", len(batch.items)):
            pyro.sample("mean", dist.Normal(batch.features[:, 0] / 2, scale))

    def test_is_told(self):
        model = partial(location_model, scale=lambda batch: 1.0)
        said = "5 items of a minibatch as if they were all 20 items of the data, at site 'o'"
        with pytest.warns(UserWarning, match=said):
            quiet_fit(model, AutoNormal(model), self.DATA, batch_size=5, epochs=1)
        quiet_fit(model, AutoNormal(model), self.DATA, batch_size=None, epochs=1)

    @staticmethod
    def mixture(batch):
        means = pyro.sample("means", dist.Normal(torch.zeros(2), 1.0).to_event(1))
        with pyro.plate("items", len(batch.items)):
            half = dist.Categorical(torch.ones(2))
            z = pyro.sample("z", half, infer={"enumerate": "parallel"})
            pyro.sample("o", dist.Normal(means[z], 1.0), obs=batch.features[:, 0])

    def test_is_told_where_the_model_draws_what_it_enumerates(self):
        guide = AutoNormal(poutine.block(self.mixture, hide=["z"]))
        with pytest.warns(UserWarning, match="counts the 5 items of a minibatch as if"):
            quiet_fit(self.mixture, guide, self.DATA, batch_size=5, epochs=1)

    @pytest.mark.parametrize("is_told", [True, False])
    def test_is_told_of_answers(self, is_told):
        data = crowd()

        def model(batch):
            right = pyro.sample("right", dist.Beta(4.0, 2.0))
            weight = 1.0 if is_told else batch.pair_weight
            with pyro.plate("pairs", batch.num_pairs), poutine.scale(scale=weight):
                pyro.sample("label", dist.Bernoulli(right), obs=batch.label)

        found = pytest.warns(UserWarning, match="pairs of a minibatch as if they were all answers")
        with found if is_told else nullcontext():
            quiet_fit(model, AutoNormal(model), data, batch_size=5, epochs=1)

    @pytest.mark.parametrize("name", ["weight", "by_factor", "by_plate", "of_items_alone"])
    def test_others_are_not(self, name):
        model = location_model if name == "weight" else getattr(self, name)
        guide = self.of_each if name == "of_items_alone" else AutoNormal(model)
        quiet_fit(model, guide, self.DATA, batch_size=5, epochs=1)


class TestNetworksFromOutside:
    """A function may close over a network, as in a tutorial of Pyro's; no copy has another then."""

    DATA = CrowdData(torch.randn(20, 2, generator=torch.Generator().manual_seed(0)))
    fit = staticmethod(partial(quiet_fit, optim=partial(torch.optim.Adam, lr=0.1)))

    def setup_method(self):
        self.net = net = nn.Linear(1, 1)

        def by_closure(batch):
            self.regression(batch, net)

        class ByMethod(nn.Module):
            def __init__(self):
                super().__init__()
                self.net = net

            def model(self, batch):
                TestNetworksFromOutside.regression(batch, self.net)

        self.by_closure, self.by_method = by_closure, ByMethod().model
        self.by_argument = partial(self.regression, net=net)

    @staticmethod
    def regression(batch, net):
        pyro.module("net", net)
        scale = pyro.sample("scale", dist.LogNormal(0.0, 1.0))
        with pyro.plate("items", batch.num_items, subsample=batch.items):
            y = dist.Normal(net(batch.features[:, :1]).squeeze(-1), scale)
            pyro.sample("y", y, obs=batch.features[:, 1])

    @staticmethod
    def made_anew(batch):
        net = pyro.module("net", nn.Linear(1, 1), update_module_params=True)
        TestNetworksFromOutside.regression(batch, net)

    @pytest.mark.parametrize("name", ["by_method", "by_argument", "made_anew"])
    def test_are_trained_where_they_are_copied(self, name):
        model, before = getattr(self, name), self.net.weight.detach().clone()
        results = [self.fit(model, AutoNormal(model), self.DATA) for _ in range(2)]
        assert torch.equal(self.net.weight, before)
        assert results[0].history["elbo"].tolist() == results[1].history["elbo"].tolist()
        assert results[0].elbo == results[1].elbo
        with results[0].inside():
            assert pyro.param("net$$$weight") != before

    def test_are_refused_where_they_are_not(self, tmp_path):
        before = self.net.weight.detach().clone()
        said = (
            r"'net.weight' \(2 such\) is of a module that model or guide uses as a global variable"
        )
        guide = AutoNormal(self.by_closure)
        with pytest.raises(ValueError, match=said):
            self.fit(self.by_closure, guide, self.DATA)
        self.fit(self.by_method, AutoNormal(self.by_method), self.DATA).save(tmp_path / "fit")
        with pytest.raises(ValueError, match=said):
            load(tmp_path / "fit", self.by_closure, guide, self.DATA)
        assert torch.equal(self.net.weight, before)

    def test_so_are_autoguides_that_a_function_calls(self):
        guide = AutoNormal(location_model)
        with pytest.raises(ValueError, match="'AutoNormal.locs.mean' .2 such. is of a module"):
            self.fit(location_model, lambda batch: guide(batch), self.DATA)
