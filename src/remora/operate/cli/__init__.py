"""What can be done from the command line? One small file per family of commands."""
