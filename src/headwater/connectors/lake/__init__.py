"""Tables made of Parquet files: what the targets Parquet, Delta and Iceberg have in common."""
