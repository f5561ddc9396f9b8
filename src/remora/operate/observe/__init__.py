"""How is a running process watched? Metrics, logs, heartbeat, notifications and the status."""
