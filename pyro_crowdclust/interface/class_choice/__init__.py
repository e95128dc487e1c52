"""The choice of a model of class labels and features, by held-out labels."""
