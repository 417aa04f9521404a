"""PostgreSQL as a source: its tables are topics of the log, complete and current, each transaction one commit."""
