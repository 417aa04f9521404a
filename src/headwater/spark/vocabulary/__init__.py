"""The vocabulary of views: every function, literal and type of Spark's, and whether a view may use it.

It is closed: an expression that nobody has classified is refused, so that a new Spark brings nothing in unseen.
"""

from headwater.spark.vocabulary.kinds import Kind, classify, classify_registered
from headwater.spark.vocabulary.rules import check, hashed_map, unorderable
from headwater.spark.vocabulary.types import accepted_type, check_type
from headwater.spark.vocabulary.words import Place, Word, Words, words

__all__ = [
    "Kind",
    "Place",
    "Word",
    "Words",
    "accepted_type",
    "check",
    "check_type",
    "classify",
    "classify_registered",
    "hashed_map",
    "unorderable",
    "words",
]
