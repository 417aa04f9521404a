"""The engine's benchmark: keeping views up to date, against others on the same input."""
