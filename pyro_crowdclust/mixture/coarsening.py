"""The evidence of a mixture that need not be exactly right: the coarsened posterior."""

from __future__ import annotations

from collections.abc import Mapping

from pyro_crowdclust.distributions import ConjugatePosterior, ConjugatePrior

# alpha is so many items, and one for every natural parameter of a component.
_COARSE_ITEMS = 2000


def coarsened_elbo(
    elbo: float,
    priors: Mapping[str, ConjugatePrior],
    posteriors: Mapping[str, ConjugatePosterior],
    num_items: int,
) -> float:
    """``sum_g F_g(zeta) + zeta (elbo - sum_g F_g(1))``, a bound of the coarsened evidence.

        F_g(zeta) = log Z(eta0 + zeta (eta - eta0)) - log Z(eta0)

    No mixture is exactly right, and so many items always show more components. If the data come
    from something whose relative entropy to a mixture is about 1 / alpha, what is known of theta is
    its prior times ``p(x | theta)^zeta``, ``zeta = alpha / (alpha + N)``, approximately: the
    coarsened posterior (Miller and Dunson 2019). Here alpha is 2,000 and the number of natural
    parameters of a component, so that wide components stay apart. With q(z) as it is, and the best
    q(theta), this is a lower bound of

        log int p(x | theta)^zeta p(theta) dtheta

    since ``eta - eta0`` is the sum of the expected statistics of the items at an optimum, and what
    the sites g do not account for is the entropy of q(z) and constants.

    Parameters
    ----------
    elbo
        The ELBO of the fit, which has no supervision.
    priors, posteriors
        Of its global sites, among them ``components``.
    num_items
        N.

    Examples
    --------
    >>> import torch
    >>> from pyro_crowdclust.families import Beta
    >>> prior = ConjugatePrior(Beta(), Beta().natural(torch.tensor(1.0), torch.tensor(1.0)))
    >>> q = ConjugatePosterior(prior)
    >>> q.set_natural_parameters(Beta().natural(torch.tensor(604.0), torch.tensor(400.0)))
    >>> elbo = float(q.family.log_normalizer(q.natural_parameters.detach()))
    >>> found = coarsened_elbo(elbo, {"components": prior}, {"components": q}, 2002)  # zeta = 1 / 2
    >>> round(found / elbo, 2)
    0.5
    """
    alpha = _COARSE_ITEMS + priors["components"].family.size
    zeta = alpha / (alpha + num_items)
    coarse = whole = 0.0
    for name, posterior in posteriors.items():
        prior, family = priors[name], posterior.family
        before = prior.natural_parameters
        counted = posterior.natural_parameters.detach() - before
        coarse += float(
            (family.log_normalizer(before + zeta * counted) - prior.log_normalizer).sum()
        )
        whole += float((family.log_normalizer(before + counted) - prior.log_normalizer).sum())
    return coarse + zeta * (elbo - whole)
