"""Sources and sinks: everything that talks to a system outside."""
