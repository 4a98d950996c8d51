"""Groups without sockets: each wait of a member ends for its reason."""
