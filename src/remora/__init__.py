"""What is this package? A complete, always-fresh copy of a source that limits how fast it may be read."""

from importlib.metadata import version

__version__ = version("remora")
