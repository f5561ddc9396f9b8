"""May this request leave now? Everything that leaves passes the gate: turns, departures, the learned pace, the circuit breaker."""
