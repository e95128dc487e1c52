"""The version, for files and reports to name."""

__version__ = "0.1.0"
