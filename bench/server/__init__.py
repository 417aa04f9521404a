"""How fast the server takes records, gives rows, and tells of changes."""
