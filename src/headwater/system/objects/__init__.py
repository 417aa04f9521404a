"""Object stores: where bytes are kept under names, in a directory or in S3."""
