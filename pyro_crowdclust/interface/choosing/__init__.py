"""Choice of a model: candidates are fitted, and compared by how well they predict held-out data."""
