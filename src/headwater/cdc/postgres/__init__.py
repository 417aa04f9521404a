"""Changes of PostgreSQL, decoded: pure functions from what a server sends (pgoutput) to Arrow tables."""
