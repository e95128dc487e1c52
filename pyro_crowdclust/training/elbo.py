"""The bound of a fit: the choice of it, its computation in few operations, and its form in files.

Every bound here is Pyro's, ``E_q[log p - log q]`` of the sites of model and guide. The default for
models without enumerated sites, ``PlainELBO``, computes Pyro's ``Trace_ELBO`` in fewer operations;
the default for others, ``EnumeratedELBO``, is Pyro's ``TraceEnum_ELBO`` in one precision.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import reduce
from typing import Any

import torch
from pyro.distributions.score_parts import ScoreParts
from pyro.distributions.util import scale_and_mask
from pyro.infer import Trace_ELBO, TraceEnum_ELBO
from pyro.infer.elbo import ELBO
from pyro.infer.util import is_validation_enabled
from pyro.poutine import Trace
from pyro.poutine.messenger import Messenger
from pyro.poutine.runtime import Message
from pyro.poutine.util import site_is_subsample
from torch import Tensor

from pyro_crowdclust.distributions.at_mean import ConjugateAtMean
from pyro_crowdclust.distributions.statistics import Conjugate, StatisticValued
from pyro_crowdclust.inference.enumeration import trace_sites
from pyro_crowdclust.protocols import unwrapped


class PlainELBO(Trace_ELBO):
    """``Trace_ELBO`` computed as ``sum log q - sum log p``, without score functions.

    If all sites of the guide are reparameterized, or return their means, no site has a score
    function, and the loss is the plain difference: the same number as Pyro's up to rounding, with
    the same gradients. Pyro's own implementation also computes the score parts of every site and
    converts log-densities to numbers, which takes a twentieth of a step on a CPU and makes it wait
    for a GPU. Other guides, several particles, and steps with Pyro's validation are left to
    ``Trace_ELBO``.
    """

    def differentiable_loss(
        self, model: Callable[..., Any], guide: Callable[..., Any], *args: Any, **kwargs: Any
    ) -> Tensor:
        of_pyro = super().differentiable_loss
        is_messenger = isinstance(unwrapped(guide), Messenger)
        if is_validation_enabled() or self.num_particles > 1 or is_messenger:
            return of_pyro(model, guide, *args, **kwargs)
        with _Sites() as of_guide:
            guide(*args, **kwargs)
        if any(not _distribution(site).has_rsample for site in of_guide.sites.values()):
            return of_pyro(model, guide, *args, **kwargs)
        with _Sites(of_guide.sites) as of_model:
            model(*args, **kwargs)
        total = _Total()
        for name, site in of_guide.sites.items():
            divergence = _divergence(site, of_model.sites.get(name))
            if divergence is None:
                total.add(site)
            else:
                del of_model.sites[name]
                total.number = total.number + divergence
        for site in of_model.sites.values():
            total.add(site, sign=-1)
        return torch.as_tensor(total.value())


class _Sites(Messenger):
    """Collects the sites of a run, with the values of earlier sites of the same names.

    It is ``poutine.trace`` of a ``poutine.replay`` in one handler, reduced to what is needed here.
    """

    def __init__(self, earlier: Mapping[str, Message] | None = None) -> None:
        super().__init__()
        self._earlier = earlier or {}
        self.sites: dict[str, Message] = {}

    def _process_message(self, msg: Message) -> None:
        name = str(msg["name"])
        if msg["type"] == "sample" and name in self._earlier and not msg["is_observed"]:
            msg["value"], msg["done"] = self._earlier[name]["value"], True

    def _postprocess_message(self, msg: Message) -> None:
        if msg["type"] == "sample" and not site_is_subsample(msg):
            self.sites[str(msg["name"])] = msg


def _distribution(site: Message) -> Any:
    return site["fn"]


def _divergence(of_guide: Message, of_model: Message | None) -> Tensor | None:
    """``KL(q || p)`` in closed form, of a site with neither scale nor mask; None if unknown."""
    if of_model is None or not (_is_plain(of_guide) and _is_plain(of_model)):
        return None
    q, p = of_guide["fn"], of_model["fn"]
    if (
        isinstance(q, ConjugateAtMean)
        and isinstance(p, Conjugate)
        and q.statistics is of_model["value"]
    ):
        return q.divergence(p)
    return None


def _is_plain(site: Message) -> bool:
    scale = site["scale"]
    return site["mask"] is None and not isinstance(scale, Tensor) and scale == 1


class _Total:
    """A sum of log-densities, scaled and masked as in Pyro, in float64.

    Log-densities with the same scale tensor, that of a plate, are added before they are scaled.
    """

    def __init__(self) -> None:
        self.number: Tensor | float = 0.0
        self._plates: dict[int, tuple[Tensor, Tensor]] = {}

    def add(self, site: Message, sign: int = 1) -> None:
        """Add the log-density of a site, or subtract it with ``sign=-1``."""
        if isinstance(site["fn"], StatisticValued) and site["fn"].adds_nothing:
            return
        log_prob = _distribution(site).log_prob(site["value"], *site["args"], **site["kwargs"])
        log_prob = scale_and_mask(log_prob, 1.0, site["mask"])
        scale = site["scale"]
        if isinstance(scale, Tensor) and scale.dim() == 1 and scale.shape == log_prob.shape:
            _, before = self._plates.get(id(scale), (scale, None))
            if before is None:
                log_prob = log_prob if sign > 0 else -log_prob
            else:
                log_prob = torch.add(before, log_prob, alpha=sign)
            self._plates[id(scale)] = scale, log_prob
        elif isinstance(scale, Tensor):
            self.number = self.number + sign * (scale * log_prob).sum(dtype=torch.float64)
        else:
            self.number = self.number + sign * scale * log_prob.sum(dtype=torch.float64)

    def value(self) -> Tensor | float:
        """The sum."""
        for scale, log_prob in self._plates.values():
            self.number = self.number + torch.dot(scale, log_prob.to(scale.dtype))
        return self.number


class EnumeratedELBO(TraceEnum_ELBO):
    """``TraceEnum_ELBO`` of sites in several precisions, computed in the widest of them.

    Pyro multiplies the probabilities of an enumerated site with weighted log-densities. Weights are
    float64 and networks mostly float32, but torch refuses such products.
    """

    def _get_trace(
        self, model: Callable[..., Any], guide: Callable[..., Any], args: Any, kwargs: Any
    ) -> tuple[Trace, Trace]:
        traces = super()._get_trace(model, guide, args, kwargs)
        sites = [site["packed"] for trace in traces for site in trace_sites(trace).values()]
        dtypes = {part.dtype for site in sites for part in _densities(site)}
        if len(dtypes) > 1:
            widest = reduce(torch.promote_types, dtypes)
            for site in sites:
                _cast(site, widest)
        return traces


def _densities(packed: dict[str, Any]) -> Iterator[Tensor]:
    """The tensors that Pyro adds and multiplies for a site; some parts of the score are numbers."""
    parts = packed["log_prob"], packed["unscaled_log_prob"], *packed.get("score_parts", ())
    return (part for part in parts if isinstance(part, Tensor))


def _cast(packed: dict[str, Any], dtype: torch.dtype) -> None:
    """Convert a site's densities to one precision, with the names of their dimensions."""

    def cast(part: Any) -> Any:
        if not isinstance(part, Tensor):
            return part
        new: Any = part.to(dtype)
        new._pyro_dims = part._pyro_dims  # type: ignore[attr-defined]
        return new

    for name in ("log_prob", "unscaled_log_prob"):
        packed[name] = cast(packed[name])
    if "score_parts" in packed:
        packed["score_parts"] = ScoreParts(*map(cast, packed["score_parts"]))


def check_precision(elbo: ELBO, error: RuntimeError) -> None:
    """Raise a ``ValueError`` if an error of Pyro's bound is due to sites in two precisions."""
    if isinstance(elbo, TraceEnum_ELBO) and "same dtype" in str(error):
        raise ValueError(
            "sites of model and guide are in several precisions, which "
            f"{type(elbo).__name__} cannot combine: leave elbo out, or pass "
            f"training.EnumeratedELBO(max_plate_nesting={elbo.max_plate_nesting}), which is "
            "TraceEnum_ELBO in the widest of them"
        ) from error


def check_sums(elbo: ELBO | None, enumerated: Sequence[str]) -> None:
    """Raise a ``ValueError`` if a bound would draw sites of the model that must be summed over."""
    if enumerated and isinstance(elbo, Trace_ELBO):
        raise ValueError(
            f"the model enumerates {', '.join(map(repr, enumerated))}, but {type(elbo).__name__} "
            "does not sum over sites: leave elbo out, or pass a training.EnumeratedELBO"
        )


def default_elbo(enumerates: bool, max_plate_nesting: int = 1) -> ELBO:
    """The default bound for a number of levels of plates, with or without enumerated sites."""
    kind = EnumeratedELBO if enumerates else PlainELBO
    return kind(max_plate_nesting=max_plate_nesting)


# Arguments of the constructors of Pyro's bounds that change their value.
_OPTIONS = ("num_particles", "max_plate_nesting", "vectorize_particles", "tail_adaptive_beta")
_KINDS = {kind.__name__: kind for kind in (PlainELBO, EnumeratedELBO, Trace_ELBO, TraceEnum_ELBO)}


class LostELBO(ELBO):
    """Placeholder of a user-defined bound, which a file cannot hold.

    Parameters
    ----------
    kind
        Name of its class.
    """

    def __init__(self, kind: str) -> None:
        super().__init__()
        self.kind = kind

    def _refuse(self, *args: Any, **kwargs: Any) -> Any:
        raise ValueError(
            f"the fit was trained with the user-defined bound {self.kind}, which files cannot "
            "hold: after loading only result.elbo is known, and the bound of other data cannot be "
            "computed"
        )

    loss = differentiable_loss = loss_and_grads = _get_trace = _refuse


def elbo_fields(elbo: ELBO) -> dict[str, Any]:
    """The entries of a file for a bound: the name of its class and its options."""
    if isinstance(elbo, LostELBO):
        return {"kind": elbo.kind}
    fields = {"kind": type(elbo).__name__}
    if can_be_kept(elbo):
        fields |= {name: getattr(elbo, name) for name in _OPTIONS}
    return fields


def can_be_kept(elbo: ELBO) -> bool:
    """Whether a file can hold a bound completely."""
    return type(elbo) in _KINDS.values()


def elbo_of_fields(fields: Mapping[str, Any]) -> ELBO:
    """Inverse of ``elbo_fields``; a ``LostELBO`` for classes that a file cannot hold."""
    options = {name: fields[name] for name in _OPTIONS if name in fields}
    if not options or fields["kind"] not in _KINDS:
        return LostELBO(fields["kind"])
    elbo = _KINDS[fields["kind"]]()
    # The constructor would add the dimension of vectorized particles a second time.
    vars(elbo).update(options)
    return elbo


# Stands in the saved options of a fit for the bound, which is that of the result.
OF_RESULT = "that of the result"
