"""Queries in processes of their own, so that what a query does can end nothing but itself."""
