"""Classes of items from class labels, alone or with features: inference, averages, a choice."""
