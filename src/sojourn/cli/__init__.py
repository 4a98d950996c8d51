"""The command line: `sojourn sample | replay | stream | report | kafka | submit | …`."""

from sojourn.cli.entry import main as main  # run a command; its exit status
