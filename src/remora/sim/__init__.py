"""A world in one process: time that jumps, a provider with hidden limits and faults, and checks on what was done to it."""
