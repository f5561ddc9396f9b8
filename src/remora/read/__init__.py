"""How is the mirror used? Reading, threads, search, changes and export. Reads the store only; the source is never asked."""
