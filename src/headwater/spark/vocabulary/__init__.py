"""The vocabulary of views: every function, literal and type of Spark's, and whether a view may use it.

It is closed: an expression that nobody has classified is refused, so that a new Spark brings nothing in unseen.
"""

from headwater.spark.vocabulary.kinds import Kind, classify, classify_registered
from headwater.spark.vocabulary.rules import Place, Word, Words, check, unorderable, words

__all__ = ["Kind", "Place", "Word", "Words", "check", "classify", "classify_registered", "unorderable", "words"]
