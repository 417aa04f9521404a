"""Parquet: a folder of files with a manifest, as the target of a view."""
