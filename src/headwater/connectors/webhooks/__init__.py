"""Webhooks out: every change of a view, sent to somebody's address."""
