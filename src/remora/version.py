"""Which version is this? Lower layers read it here: importing it from the public face would make them depend on the top."""

# Written here and read by the build: asking the installed package for it would make every command start 40 ms later.
__version__ = "0.1.0"
