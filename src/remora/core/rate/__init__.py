"""How fast may we send? The rate law, the pacer, the circuit breaker and what is remembered between runs."""
