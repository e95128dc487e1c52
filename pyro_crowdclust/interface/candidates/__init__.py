"""Ways to model the features of some data, any of which a choice may try."""
