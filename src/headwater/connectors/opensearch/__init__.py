"""OpenSearch, and Elasticsearch by the same requests: an index that holds a view, one document per key."""
