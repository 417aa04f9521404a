"""PostgreSQL: its tables as a source of topics, complete and current, and a table as the target of a view."""
