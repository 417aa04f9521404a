"""Alerts: rows of a view that should not be there, when they fire and clear, and who is told."""
