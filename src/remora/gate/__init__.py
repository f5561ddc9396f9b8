"""May this request be sent now? All requests pass the gate: turns, departures, learned pace, circuit breaker."""
