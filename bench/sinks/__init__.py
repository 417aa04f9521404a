"""The benchmark of sinks."""
