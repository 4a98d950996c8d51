"""Sockets: one thread, the brokers' doors, and connections with one request at a time."""
