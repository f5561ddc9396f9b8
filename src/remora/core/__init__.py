"""Which decisions does Remora make? Pure functions: no I/O, clock, randomness or logging; time is an argument."""
