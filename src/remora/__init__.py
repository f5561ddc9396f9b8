"""What is this package? A complete, always-fresh copy of a source that limits how fast it may be read."""

# Written here and read by the build: asking the installed package for it would make every command start 40 ms later.
__version__ = "0.1.0"
