"""OpenSearch: an index that holds a view, one document per key."""
