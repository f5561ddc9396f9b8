"""What do we hold, and what do we owe? Items, coverage, segments, gaps, list walks and runs."""
