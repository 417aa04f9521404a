"""The HTTP server of an application: events in, views out, changes as they happen, and how everything is."""
