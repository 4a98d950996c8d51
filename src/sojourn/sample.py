"""Realistic traces made from a seed."""
