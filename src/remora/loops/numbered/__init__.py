"""What keeps a numbered source complete and fresh? Backfill, live, updates, inbox, rescan."""
