"""Clusters from answers alone: priors of the sizes of clusters, compared by held-out answers."""
