"""What is run by hand, by `make` or at night."""
