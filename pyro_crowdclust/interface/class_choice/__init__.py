"""Choice of a model of class labels and features, by how well it predicts held-out labels."""
