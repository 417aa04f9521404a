"""Changes of databases, decoded: pure functions from what a server sends to Arrow tables."""
