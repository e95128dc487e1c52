"""The last round of message passing as one function, with an analytic gradient.

For every row, with natural parameters of the latent ``(h, vec Q) = sum_k q_k E[t(theta_k)] + r(o)``
(eq. 12 of Luo et al. 2018), precision Lambda = -2 Q = L L^T, W = L^{-1} and covariance C = W^T W,
the round gives

    m = C h,   M = m m^T + C,   R = W^T,
    l_k = E[log pi_k] + <E[t(theta_k)], (m, vec M, 1, 1)>   (eq. 14).

Let (g_m, G_M, G_R, g_l, g_R) be the gradients of (m, M, R, l, log|R|), and

    (u, vec U) = sum_k g_l,k E[t(theta_k)] + (g_m, vec (G_M + G_M^T) / 2),

in which U is symmetric because the components' precisions are. Then

    m' = u + 2 U m                     the total gradient of the mean
    grad h = C m'
    dC = -C dLambda C, dW = -tril'(W dLambda W^T) W, where tril' halves the diagonal of tril,
    d log|R| = -tr(C dLambda) / 2

and, since the potential adds lambda to the diagonal of Lambda,

    grad lambda = -diag(C U C + W^T tril'(tril(G_R^T) W^T) W + g_R C / 2) - (grad h) o m.

Only the recognition potentials r(o) = (h, lambda) get a gradient; the assignments q of earlier
rounds and the global parameters are held fixed. Autograd would need about 60 operations for these
few products.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor
from torch.autograd.function import once_differentiable

from pyro_crowdclust.families import Gaussian, Moments
from pyro_crowdclust.families.gaussian import inverse_cholesky, second_moment
from pyro_crowdclust.families.potential import GaussianPotential


class LastRound(NamedTuple):
    """Latents and logits of the first rows without messages, then of all rows.

    ``log_determinant`` is log|R| of all rows.
    """

    alone: Moments
    alone_logits: Float[Tensor, "paired cluster"]
    latent: Moments
    logits: Float[Tensor, "item cluster"]
    log_determinant: Float[Tensor, " item"]


def last_round(
    local: Gaussian,
    log_weights: Float[Tensor, " cluster"],
    components: Float[Tensor, "cluster size"],
    potential: GaussianPotential,
    alone: Float[Tensor, "paired cluster"],
    assignments: Float[Tensor, "item cluster"],
    messages: Float[Tensor, "paired cluster"],
) -> LastRound:
    """Eq. 12 and 14; for the first ``paired`` items also under q(z) = ``alone``, without messages.

    Parameters
    ----------
    local
        The Gaussian family of the latent.
    log_weights, components
        E[log pi] and E[t(theta_k)], held fixed.
    potential
        r(o), the only argument with a gradient.
    alone, assignments
        q(z) of the round before: of the paired items without messages, and of all items.
    messages
        Messages between the paired items; constants that are added to their logits.
    """
    parts = _LastRound.apply(
        *potential, local, log_weights, components, torch.cat([alone, assignments]), messages
    )
    return LastRound(Moments(*parts[:3]), parts[3], Moments(*parts[4:7]), *parts[7:])


class _LastRound(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        linear: Tensor,
        precision: Tensor,
        local: Gaussian,
        log_weights: Tensor,
        components: Tensor,
        assignments: Tensor,
        messages: Tensor,
    ) -> tuple[Tensor, ...]:
        paired, dim = messages.shape[0], local.dim
        of_latent = components[:, : local.size]
        natural = assignments @ of_latent
        vectors, diagonals = natural[:, :dim], natural[:, dim :: dim + 1]
        for rows, own in ((slice(paired), slice(paired)), (slice(paired, None), slice(None))):
            vectors[rows].add_(linear[own])
            diagonals[rows].sub_(precision[own], alpha=0.5)
        vector, quadratic = local.unpack(natural)
        inverse = inverse_cholesky(-2 * quadratic)
        root = inverse.mT
        covariance = torch.bmm(root, inverse)
        mean = torch.bmm(covariance, vector.unsqueeze(-1)).squeeze(-1)
        second = second_moment(mean, covariance)
        constants = log_weights + components[:, local.size :].sum(-1)
        logits = torch.addmm(constants, local.pack(mean, second), of_latent.mT)
        logits[paired : 2 * paired] += messages
        ctx.local, ctx.paired = local, paired
        ctx.set_materialize_grads(False)
        ctx.save_for_backward(of_latent, mean, covariance, inverse)
        parts = (mean, second, root, logits)
        log_determinant = root[paired:].diagonal(dim1=-2, dim2=-1).log().sum(-1)
        halves = slice(paired), slice(paired, None)
        return (*(part[own] for own in halves for part in parts), log_determinant)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *of_outputs: Tensor | None) -> tuple[Tensor | None, ...]:
        *gradients, of_log_determinant = of_outputs
        of_latent, mean, covariance, inverse = ctx.saved_tensors
        local, paired = ctx.local, ctx.paired
        both = slice(paired), slice(paired, None)  # the rows without messages, and all items
        logits_grad = mean.new_zeros(mean.shape[0], of_latent.shape[0])
        for rows, of_logits in zip(both, gradients[3::4], strict=True):
            if of_logits is not None:
                logits_grad[rows] = of_logits
        vector, symmetric = local.unpack(logits_grad @ of_latent)
        for rows, of_mean, of_second in zip(both, gradients[::4], gradients[1::4], strict=True):
            if of_mean is not None:
                vector[rows] += of_mean
            if of_second is not None:
                symmetric[rows].add_(of_second + of_second.mT, alpha=0.5)
        mean_grad = torch.add(vector, torch.bmm(symmetric, mean.unsqueeze(-1)).squeeze(-1), alpha=2)
        linear_grad = torch.bmm(covariance, mean_grad.unsqueeze(-1)).squeeze(-1)
        diagonal = (torch.bmm(covariance, symmetric) * covariance).sum(-1)
        diagonal.addcmul_(linear_grad, mean)
        for rows, of_root in zip(both, gradients[2::4], strict=True):
            if of_root is not None:
                diagonal[rows] += _of_root(of_root, inverse[rows])
        if of_log_determinant is not None:
            variance = covariance[paired:].diagonal(dim1=-2, dim2=-1)
            diagonal[paired:].addcmul_(of_log_determinant.unsqueeze(-1), variance, value=0.5)
        for part in (linear_grad, diagonal):
            part[paired : 2 * paired] += part[:paired]
        return linear_grad[paired:], -diagonal[paired:], None, None, None, None, None


def _of_root(gradient: Tensor, inverse: Tensor) -> Float[Tensor, "item dim"]:
    """``diag(W^T tril'(tril(G^T) W^T) W)`` from the gradient G of ``R = W^T``."""
    # W^T is upper triangular: entries above the diagonal of G^T do not contribute to tril'.
    inner = torch.bmm(gradient.mT, inverse.mT)
    inner.tril_().diagonal(dim1=-2, dim2=-1).mul_(0.5)
    return (torch.bmm(inner, inverse) * inverse).sum(-2)
