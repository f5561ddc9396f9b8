"""What keeps a listed source complete and fresh? Bounded runs over its list and details."""
