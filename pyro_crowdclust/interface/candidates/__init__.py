"""Candidates of a choice: coordinates of the features, and models of clusters on them."""
