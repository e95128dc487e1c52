"""The last round of message passing in one piece, with its gradient by hand.

For every row, with natural parameters of the latent ``(h, vec Q) = sum_k q_k E[t(theta_k)] + r(o)``
(eq. 12 of Luo et al. 2018), precision Lambda = -2 Q = L L^T, W = L^{-1} and covariance C = W^T W,
the round gives

    m = C h,   R = W^T,   l_k = E[log pi_k] + <E[t(theta_k)], (m, vec(m m^T + C), 1, 1)>   (eq. 14).

Let (g_m, G_R, g_l) be the gradients of (m, R, l), and (u, vec U) = sum_k g_l,k E[t(theta_k)], in
which U is symmetric because the components' precisions are. Then

    m' = g_m + u + 2 U m               all that reaches the mean
    grad h = C m'
    dC = -C dLambda C, dW = -tril'(W dLambda W^T) W, where tril' halves the diagonal of tril,

and, since Q = -Lambda / 2,

    grad Q = Z + Z^T,   Z = W^T (W U W^T + tril'(tril(G_R^T) W^T)) W + (grad h) m^T.

Only the recognition potentials r(o) learn from it; the assignments q of earlier rounds and the
global parameters are held fixed. Autograd needs some 60 operations for these few products.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor
from torch.autograd.function import once_differentiable

from pyro_crowdclust.families import Gaussian
from pyro_crowdclust.families.gaussian import inverse_cholesky


class LastRound(NamedTuple):
    """Mean, root and logits of the first rows as if they had no messages, then of all rows."""

    alone_mean: Float[Tensor, "paired dim"]
    alone_root: Float[Tensor, "paired dim dim"]
    alone_logits: Float[Tensor, "paired cluster"]
    mean: Float[Tensor, "item dim"]
    root: Float[Tensor, "item dim dim"]
    logits: Float[Tensor, "item cluster"]


def last_round(
    local: Gaussian,
    log_weights: Float[Tensor, " cluster"],
    components: Float[Tensor, "cluster size"],
    potential: Float[Tensor, "item natural"],
    alone: Float[Tensor, "paired cluster"],
    assignments: Float[Tensor, "item cluster"],
    messages: Float[Tensor, "paired cluster"],
) -> LastRound:
    """Eq. 12 and 14, the first ``paired`` items once under q(z) = ``alone`` and without messages.

    Parameters
    ----------
    local
        The Gaussian family of the latent.
    log_weights, components
        E[log pi] and E[t(theta_k)], held fixed.
    potential
        r(o), the one argument that learns.
    alone, assignments
        q(z) of the round before: of the paired items without messages, and of all items.
    messages
        What the paired items hear from each other; constants that are added to their logits.
    """
    return LastRound(
        *_LastRound.apply(
            potential, local, log_weights, components, torch.cat([alone, assignments]), messages
        )
    )


class _LastRound(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        potential: Tensor,
        local: Gaussian,
        log_weights: Tensor,
        components: Tensor,
        assignments: Tensor,
        messages: Tensor,
    ) -> tuple[Tensor, ...]:
        paired = len(messages)
        of_latent = components[:, : local.size]
        natural = assignments @ of_latent
        natural[:paired] += potential[:paired]
        natural[paired:] += potential
        linear, quadratic = local.unpack(natural)
        inverse = inverse_cholesky(-2 * quadratic)
        root = inverse.mT
        covariance = torch.bmm(root, inverse)
        mean = torch.bmm(covariance, linear.unsqueeze(-1)).squeeze(-1)
        second = torch.addcmul(covariance, mean.unsqueeze(-1), mean.unsqueeze(-2))
        constants = log_weights + components[:, local.size :].sum(-1)
        logits = torch.addmm(constants, local.pack(mean, second), of_latent.mT)
        logits[paired : 2 * paired] += messages
        ctx.local, ctx.paired = local, paired
        ctx.set_materialize_grads(False)
        ctx.save_for_backward(of_latent, mean, covariance, inverse)
        rows = (mean, root, logits)
        return (*(part[:paired] for part in rows), *(part[paired:] for part in rows))

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *gradients: Tensor | None) -> tuple[Tensor | None, ...]:
        of_latent, mean, covariance, inverse = ctx.saved_tensors
        local, paired = ctx.local, ctx.paired
        both = slice(paired), slice(paired, None)  # the rows without messages, and all items
        logits_grad = mean.new_zeros(len(mean), len(of_latent))
        for rows, of_logits in zip(both, gradients[2::3], strict=True):
            if of_logits is not None:
                logits_grad[rows] = of_logits
        vector, symmetric = local.unpack(logits_grad @ of_latent)
        mean_grad = torch.add(vector, torch.bmm(symmetric, mean.unsqueeze(-1)).squeeze(-1), alpha=2)
        for rows, of_mean in zip(both, gradients[::3], strict=True):
            if of_mean is not None:
                mean_grad[rows] += of_mean
        linear_grad = torch.bmm(covariance, mean_grad.unsqueeze(-1)).squeeze(-1)
        root = inverse.mT
        inner = torch.bmm(torch.bmm(inverse, symmetric), root)
        lower = torch.ones_like(inner[0]).tril()
        halved = lower - torch.eye(local.dim).to(lower) / 2
        for rows, of_root in zip(both, gradients[1::3], strict=True):
            if of_root is not None:
                inner[rows] += torch.bmm((of_root * lower.mT).mT, root[rows]) * halved
        half = torch.bmm(torch.bmm(root, inner), inverse)
        half = torch.addcmul(half, linear_grad.unsqueeze(-1), mean.unsqueeze(-2))
        gradient = local.pack(linear_grad, half + half.mT)
        potential_grad = gradient[paired:]
        potential_grad[:paired] += gradient[:paired]
        return potential_grad, None, None, None, None, None
