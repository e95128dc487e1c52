"""Terms of the training loss besides the negative ELBO: for answers, labels and views of items."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float
from pyro.poutine.messenger import Messenger
from pyro.poutine.runtime import Message, effectful
from torch import Tensor

from pyro_crowdclust.minibatches.batch import Batch
from pyro_crowdclust.networks.views import View
from pyro_crowdclust.protocols import AnswerCoupling

Schedule = float | Callable[[float], float]


def _at(weight: Schedule, epoch: float) -> float:
    """A weight that may be a function of the epoch."""
    return weight(epoch) if callable(weight) else weight


@effectful(type="loss_term")
def add_loss_term(term: str, value: Float[Tensor, ""]) -> Float[Tensor, ""]:
    """Add a term to the training loss, from anywhere in a model or a guide.

    It is a Pyro effect, like ``pyro.sample``, that ``LossTerms`` handles; without a handler it does
    nothing.

    Parameters
    ----------
    term
        Name of the term.
    value
        The term; only its gradient matters to training.
    """
    return value


class LossTerms(Messenger):
    """Collects the terms that a model and a guide add to the training loss, by name.

    A term that is added several times, as in an ELBO with several particles, counts as its mean.

    Examples
    --------
    >>> import torch
    >>> with LossTerms() as terms:
    ...     _ = add_loss_term("ridge", torch.tensor(0.5))
    >>> terms.values(), terms.total()
    ({'ridge': tensor(0.5000)}, tensor(0.5000))
    """

    def __init__(self) -> None:
        super().__init__()
        self._collected: dict[str, list[Tensor]] = {}

    def _pyro_loss_term(self, message: Message) -> None:
        term, value = message["args"]
        self._collected.setdefault(term, []).append(value)

    def values(self) -> dict[str, Float[Tensor, ""]]:
        """Every term under its name."""
        return {term: torch.stack(values).mean() for term, values in self._collected.items()}

    def total(self) -> Float[Tensor, ""] | float:
        """The sum of all terms; 0.0 without any."""
        return sum(self.values().values(), 0.0)


@dataclass
class RecognitionTerm:
    """``-c sum_ij w_ij <q(z_i | o_i), q(z_j | o_j)>``: the answers under *message-free* q(z | o).

    With messages, q(z) of the answered items is correct at once, and the workers' rates are learned
    at once, but this hardly changes the recognition network and the mixture, and new items are
    clustered without messages. This term is the relational part of the SCDC bound (Luo et al. 2018,
    section 2.3) at the current means of the workers' rates. It is added to the training loss, never
    to the reported ELBO, and its gradient reaches the recognition network alone.

    Attributes
    ----------
    weight
        c, as a number or a function of the epoch. Above 1 the training objective is tempered: it is
        not a bound, and the probabilities of items near a boundary become overconfident. Anneal it
        to recover the bound.
    """

    weight: Schedule
    epoch: float = 0.0

    def loss(
        self,
        assignments: Float[Tensor, "item cluster"],
        coupling: AnswerCoupling,
    ) -> Float[Tensor, ""]:
        """The term for the log factor of a coupling under q(z | o)."""
        return -_at(self.weight, self.epoch) * coupling.potential(assignments[: coupling.num_items])


@dataclass
class LabelTerm:
    """``-c sum_n log p(y_n | q(z_n | o_n))``: known labels under the *label-free* q(z | o).

    With its label an item is in the right cluster at once, so networks learn the features of each
    cluster, but not what distinguishes clusters. This term is the log loss of the predictions for
    the labelled items. It is added to the training loss, never to the reported ELBO, and has no
    gradient in the conjugate posteriors. It is never negative, so the training objective stays
    below the ELBO, hence below the log evidence: a bound, but a loose one.

    Where q(z | o) is a classifier (Kingma et al. 2014, eq. 9) the term trains only the classifier.
    Where q(z | o) is the optimum of the bound, the term trains the networks of both model and guide
    to separate clusters, at the cost of the bound.

    Attributes
    ----------
    weight
        c, as a number or a function of the epoch; 0 is the model of the paper.
    epoch
        Current epoch of training.
    """

    weight: Schedule
    epoch: float = 0.0

    def loss(
        self,
        alone: Float[Tensor, "labelled cluster"],
        with_labels: Float[Tensor, "labelled cluster"],
        item_weight: Float[Tensor, " labelled"],
    ) -> Float[Tensor, ""]:
        """The term for the labelled items of a batch, scaled to all data.

        Parameters
        ----------
        alone
            Unnormalized log q(z | o) without the labels.
        with_labels
            The same plus the log probability of the item's label in every cluster.
        item_weight
            Inverse inclusion rates.
        """
        log_loss = alone.logsumexp(-1) - with_labels.logsumexp(-1)
        return _at(self.weight, self.epoch) * torch.dot(item_weight.to(log_loss.dtype), log_loss)


@dataclass
class ConsistencyTerm:
    """``-sum_i c_i sum_k q(z_i = k) log q(z_i = k | v(o_i))``: views of an item keep its cluster.

    A *view* v(o) is a random change of features that does not change the cluster, such as a small
    rotation of an image. The target is q(z) of the item, with messages; the recognition network
    should infer the same from the features of a view alone. So it learns from the effect of the
    answers on q(z) of the answered items, again and again on new views, and clusters cannot depend
    on the rotation of an item. The term is added to the training loss, never to the reported ELBO,
    and its gradient reaches the recognition network alone. Training on consistent predictions:
    Sajjadi et al. 2016; Laine and Aila 2017. In a guide with a classifier for q(z | o), the
    classifier replaces the recognition network, and known labels replace answers.

    Attributes
    ----------
    view
        How views are made, e.g. ``RandomAffine``.
    weight
        c of the items without answers and labels, as a number or a function of the epoch.
    answered_weight
        c of the items with answers or known labels. They are few, and only they have human
        information, so it should be the larger one: otherwise the views of the other items can lead
        to a merge of two human clusters before the answers have an effect.
    """

    view: View
    weight: Schedule
    answered_weight: Schedule
    epoch: float = 0.0

    def views(self, batch: Batch) -> Float[Tensor, "item ..."]:
        """A view of every item of a batch."""
        features = batch.needed_features.detach()
        normal = batch.noise(features.new_empty(features.shape[0], self.view.num_random))
        return self.view(features, 2 * torch.special.ndtr(normal) - 1)

    def loss(
        self,
        assignments: Float[Tensor, "item cluster"],
        seen: Float[Tensor, "item cluster"],
        item_weight: Float[Tensor, " item"],
        answered: Bool[Tensor, " item"],
    ) -> Float[Tensor, ""]:
        """The term for a batch, scaled to all items.

        Parameters
        ----------
        assignments
            q(z), as inferred with messages.
        seen
            Logits of q(z | v(o)).
        item_weight
            Inverse inclusion rates.
        answered
            Which items have answers or labels.
        """
        weights = _at(self.answered_weight, self.epoch), _at(self.weight, self.epoch)
        weight = torch.where(answered, *weights).to(item_weight.dtype)
        cross_entropy = -(assignments.detach() * seen.log_softmax(-1)).sum(-1)
        return torch.dot((weight * item_weight).to(cross_entropy.dtype), cross_entropy)


def set_epoch_of(
    epoch: float, *terms: RecognitionTerm | LabelTerm | ConsistencyTerm | None
) -> None:
    """Set the epoch of terms of the loss; None stands for a term that a guide does not have."""
    for term in terms:
        if term is not None:
            term.epoch = epoch
