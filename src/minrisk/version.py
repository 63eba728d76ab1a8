"""The one place that knows the version; the build reads it too."""

__version__ = "0.2.0"
