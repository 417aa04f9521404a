"""The demo: a shop on a real PostgreSQL, with traffic, views over it, and ways to break it while one watches."""
