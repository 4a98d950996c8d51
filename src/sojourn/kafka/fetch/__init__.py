"""Fetch requests: what they ask, how they wait, and sessions that save naming partitions."""
