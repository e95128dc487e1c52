"""Clusters from answers alone, with a prior of cluster sizes that held-out answers choose."""
