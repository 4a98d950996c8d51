"""The command line: `sojourn sample | replay | stream | report`."""

from __future__ import annotations


def main() -> int:
    """Run the command; return its exit status."""
    raise NotImplementedError
