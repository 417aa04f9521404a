"""Changes of databases on their way into the log: what is alike for all of them, and a package per database."""
