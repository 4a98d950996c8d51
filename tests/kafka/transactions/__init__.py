"""Transactions without sockets, on a clock that is moved by hand."""
