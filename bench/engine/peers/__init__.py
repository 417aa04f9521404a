"""The engine's peers: other systems at the same lines, each in an environment of its own."""
