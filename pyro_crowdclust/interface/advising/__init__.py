"""Advice about the settings and data of a fit, in plain sentences."""
