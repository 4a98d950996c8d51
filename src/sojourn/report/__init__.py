"""One page about what waited, how long, and what the timeout should have been."""
