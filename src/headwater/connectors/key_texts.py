"""Keys as texts, as connectors know them: see `headwater.engine.sinks.key_texts`."""

from headwater.engine.sinks.key_texts import key_texts

__all__ = ["key_texts"]
