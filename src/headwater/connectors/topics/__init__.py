"""Topics of a log, the same or another one, that hold views."""
