"""What keeps running? One file per loop, each with `run_once` (what tests call) and `run` around it."""
