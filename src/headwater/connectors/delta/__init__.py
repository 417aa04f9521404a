"""Delta Lake: a table as the target of a view."""
