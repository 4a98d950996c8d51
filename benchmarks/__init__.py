"""Sojourn beside its rivals: `python -m benchmarks` runs, prints, plots."""
