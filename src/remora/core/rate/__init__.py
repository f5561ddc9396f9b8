"""How fast may we go? The rate law, the pacer, lanes, the circuit breaker and what is remembered between runs."""
