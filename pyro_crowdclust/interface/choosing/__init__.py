"""How a model is chosen: candidates are tried, and judged by what is held out of their fits."""
