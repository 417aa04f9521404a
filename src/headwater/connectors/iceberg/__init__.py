"""Iceberg: topics as tables of a catalog, without a copy of their files, and tables as the targets of views."""
