"""Requests that may wait: each waits, completes for its reason, or expires with its answer, and
leaves nothing watched. There are no sockets: `send` returns when it waits, or is answered.
"""
