"""Redis: keys of a server, one for each row, as the target of a view."""
