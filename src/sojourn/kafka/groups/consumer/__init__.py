"""Groups of the consumer protocol (KIP-848): the coordinator assigns, one heartbeat at a time."""
