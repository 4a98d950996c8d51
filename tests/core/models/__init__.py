"""Naive twins of what is tested: they know the contract and none of the mechanism."""
