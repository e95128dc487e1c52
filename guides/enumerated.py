"""A guide of z for plain Pyro models of clusters, with or without answers about pairs.

    q(Theta, z) = q(Theta) prod_i q(z_i | Theta),    q(z_i) prop. to p(z_i | o_i, Theta) exp(m_i)

q(Theta) is that of another guide, such as an ``AutoNormal``. z is enumerated in this guide, and not
in the model: there Pyro can sum over it only if all items have the same weight, and not at all if
answers make items dependent. The messages m_i are those of Luo et al. 2018, eq. 14; without answers
q(z) is exact, and the bound is that of the model with z summed out.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import pyro
import pyro.distributions as dist
import torch
from jaxtyping import Float
from pyro import poutine
from pyro.poutine import Trace
from torch import Tensor, nn

from pyro_crowdclust.distributions import EnumeratedAgreement, FullPlate, SameCluster
from pyro_crowdclust.errors import first_line
from pyro_crowdclust.families import softmax_without_denormals
from pyro_crowdclust.inference import (
    ItemSite,
    LocalPosterior,
    LocalSolver,
    PairCoupling,
    averaged,
    check_drawn_items,
    check_partly_observed,
    create_plates,
    latent_values,
    trace_of,
    trace_sites,
    unscaled_log_density,
)
from pyro_crowdclust.minibatches import Batch

# Computes the messages between the items that workers compared.
_SOLVER = LocalSolver(exchanges=10)


class PairSite(NamedTuple):
    """The site of whether the two items of a pair are the same: its name, plate and scale."""

    name: str
    plate: str
    scale: float | Tensor

    @classmethod
    def find(cls, of_model: Trace) -> PairSite | None:
        """The site of ``SameCluster``, if there is one."""
        for name, site in of_model.nodes.items():
            if site["type"] == "sample" and isinstance(site["fn"], SameCluster):
                plates = [frame.name for frame in site["cond_indep_stack"]]
                if len(plates) != 1:
                    raise ValueError(
                        f"the site {name!r} of SameCluster is in {len(plates)} plates: sample it "
                        "in exactly one, the plate of the pairs"
                    )
                return cls(name, plates[0], site["scale"])
        return None

    def log_density(self, trace: Trace) -> Float[Tensor, " pair"]:
        """The log-density of all other sites of the plate in a run, for each pair."""
        of_pairs = {
            name: site
            for name, site in trace_sites(trace).items()
            if name != self.name
            and self.plate in [frame.name for frame in site["cond_indep_stack"]]
        }
        return torch.stack([_log_density(*site) for site in of_pairs.items()]).sum(0)


def _log_density(name: str, site: dict[str, Any]) -> Tensor:
    """That of a site; a ``ValueError`` where its values are not numbers of the right type."""
    try:
        return unscaled_log_density(site)
    except RuntimeError as error:
        raise ValueError(
            f"the log-density of the site {name!r} cannot be computed for values of "
            f"{site['value'].dtype}: {first_line(error)}. Observe batch.label as it is, a float of "
            "0 or 1"
        ) from error


class EnumeratedGuide(nn.Module):
    """q(z) of a plain Pyro model of a ``Batch``, next to another guide of all other sites.

    The model samples z with ``infer={"enumerate": "parallel"}`` inside the plate of the items, and,
    if the batch has answers, ``SameCluster(z, batch.left, batch.right, batch.num_paired)`` inside a
    plate of the pairs. The likelihood of an answer can be any function of the latter's value.

    Parameters
    ----------
    model
        The model, a Pyro callable of a batch.
    of_globals
        Guide of all other latent sites: ``AutoNormal(poutine.block(model, hide=[...]))``.

    Raises
    ------
    ValueError
        When it runs: if the model enumerates no site of the items, if it enumerates several and
        none is called z, if that site is not categorical, or if ``of_globals`` enumerates.

    Examples
    --------
    >>> from pyro.infer.autoguide import AutoDelta
    >>> from pyro_crowdclust import CrowdData
    >>> from pyro_crowdclust.minibatches import full_batch
    >>> def model(batch):
    ...     mean = pyro.sample("mean", dist.Normal(0.0, 5.0).expand([2]).to_event(1))
    ...     with pyro.plate("items", len(batch.items)), poutine.scale(scale=batch.item_scale):
    ...         half = dist.Categorical(torch.ones(2))
    ...         z = pyro.sample("z", half, infer={"enumerate": "parallel"})
    ...         pyro.sample("o", dist.Normal(mean[z], 1.0), obs=batch.features[:, 0])
    >>> guide = EnumeratedGuide(model, AutoDelta(poutine.block(model, hide=["z"])))
    >>> guide.infer(full_batch(CrowdData(torch.zeros(5, 1)))).assignments.shape
    torch.Size([5, 2])
    """

    def __init__(self, model: Callable[[Batch], Any], of_globals: Callable[[Batch], Any]) -> None:
        super().__init__()
        self.model, self.of_globals = model, of_globals

    def forward(self, batch: Batch) -> None:
        """Run the guide on a batch, as Pyro does."""
        with poutine.trace() as recorded:
            self.of_globals(batch)
        check_drawn_items(recorded.trace, batch)
        _check_not_enumerated(recorded.trace)
        site, logits, pairs = self._local(latent_values(recorded.trace), batch)
        with FullPlate(site.plate, batch.items.shape[0], site.scale):
            z = dist.Categorical(logits=logits, validate_args=False)
            value = pyro.sample(site.name, z, infer={"enumerate": "parallel"})
        if pairs is not None:
            # If z is drawn, as by Predictive, it determines which pairs are the same.
            drawn = value.dim() == 1
            q = value if drawn else softmax_without_denormals(logits[: batch.num_paired])
            same = SameCluster(q, batch.left, batch.right, batch.num_paired).sample().to(logits)
            with FullPlate(pairs.plate, batch.num_pairs, pairs.scale):
                agreement = EnumeratedAgreement(same)
                pyro.sample(pairs.name, agreement, infer={"enumerate": "parallel"})

    @torch.no_grad()
    def infer(self, batch: Batch) -> LocalPosterior:
        """q(z) of a batch, with the messages of the answers that it holds."""

        def log_probabilities() -> Tensor:
            theta = latent_values(trace_of(self.of_globals, batch))
            return self._local(theta, batch)[1].log_softmax(-1)

        return averaged(log_probabilities)

    @torch.no_grad()
    def _local(
        self, theta: dict[str, Tensor], batch: Batch
    ) -> tuple[ItemSite, Float[Tensor, "item cluster"], PairSite | None]:
        """The site of z, log q(z) given Theta, and the site of the pairs, if there are any."""
        given = poutine.condition(self.model, data=theta)
        trace = trace_of(given, batch)
        check_partly_observed(trace, Trace())
        site = ItemSite.find(trace, Trace(), len(batch.items))
        if site is None:
            sites = trace_sites(trace).items()
            _check_plates(trace, theta, batch)
            names = [repr(name) for name, found in sites if found["infer"].get("enumerate")]
            raise ValueError(
                f"the model enumerates {' and '.join(names) or 'no site of the items'}: sample the "
                'cluster of the items inside their plate with infer={"enumerate": "parallel"}, and '
                "call it 'z' if other sites are enumerated, too"
            )
        nodes: Any = trace.nodes
        z = nodes[site.name]["value"]
        if z.is_floating_point():
            raise ValueError(
                f"the site {site.name!r} has values of {z.dtype}, but must hold the codes of "
                "clusters: sample it from a Categorical"
            )
        alone = site.log_posterior(given, batch.without_answers())
        pairs = PairSite.find(trace) if batch.num_pairs else None
        if pairs is None:
            return site, alone, None
        # Without labels the model would draw some, and the messages would be those of the draws.
        _ = batch.needed_label
        first, others = alone[: batch.num_paired], alone[batch.num_paired :]
        # log p(answer) if both items are in one cluster, and if not, under any likelihood.
        if_same, if_different = (
            pairs.log_density(
                trace_of(poutine.condition(given, data={site.name: z, pairs.name: same}), batch)
            )
            for same in (torch.ones_like(batch.pair_weight), torch.zeros_like(batch.pair_weight))
        )
        ratio = (if_same - if_different).to(first)
        coupling = PairCoupling(batch.left, batch.right, ratio, batch.num_paired)
        q = softmax_without_denormals(first)
        with_messages, _ = _SOLVER.exchange(first, first, q, coupling)
        return site, torch.cat([with_messages, others]), pairs


def _check_not_enumerated(of_globals: Trace) -> None:
    """Raise a ``ValueError`` if the other guide enumerates a site; q(z) is of one value of each."""
    for name, site in trace_sites(of_globals).items():
        if site["infer"].get("enumerate"):
            raise ValueError(
                f"the guide of the other sites enumerates {name!r}, but q(z) and the agreement of "
                "pairs are computed for one value of each site: leave it out of model and guide, "
                "and sum over it in the distribution of the site that depends on it, or make it a "
                "continuous site, such as a probability"
            )


def _check_plates(of_model: Trace, theta: Mapping[str, Tensor], batch: Batch) -> None:
    """Raise a ``ValueError`` if a plate of the other guide has another size than the batch."""
    for name, site in trace_sites(of_model).items():
        for frame in site["cond_indep_stack"]:
            own = theta.get(frame.name)
            if site["infer"].get("enumerate") and own is not None and len(own) != len(batch.items):
                raise ValueError(
                    f"the model enumerates {name!r} in the plate {frame.name!r}, but in this plate "
                    f"the guide of the other sites draws {len(own)} items, and the batch has "
                    f"{len(batch.items)}: {create_plates(frame.name)}"
                )
