"""What can a process do? The service, its worker, the backfill, a run, the preflight, the export."""
