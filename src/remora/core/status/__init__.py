"""How is it going? Snapshots of running processes and the ledger become a status, answers and alarms."""
