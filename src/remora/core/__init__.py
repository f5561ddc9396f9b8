"""Which decisions does Remora make? Pure ones live here: no I/O, no clock, no chance, no logging; time is passed in."""
