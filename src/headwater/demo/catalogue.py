"""What the shop sells, who buys, and what they write."""

from __future__ import annotations

PRODUCTS: tuple[tuple[str, str, str], ...] = (
    ("Rain jacket", "outdoor", "129.00"), ("Trail shoes", "outdoor", "99.00"), ("Tent for two", "outdoor", "249.00"),
    ("Sleeping bag", "outdoor", "89.50"), ("Head torch", "outdoor", "34.90"), ("Water filter", "outdoor", "44.00"),
    ("Espresso pot", "kitchen", "32.00"), ("Bread knife", "kitchen", "27.50"), ("Cast-iron pan", "kitchen", "59.00"),
    ("Pasta machine", "kitchen", "74.00"), ("Tea kettle", "kitchen", "49.90"), ("Spice rack", "kitchen", "21.00"),
    ("Noise-free mouse", "office", "39.00"), ("Desk lamp", "office", "64.00"), ("Standing mat", "office", "54.50"),
    ("Fountain pen", "office", "29.90"), ("Notebook, dotted", "office", "12.50"), ("Webcam", "office", "84.00"),
    ("Wooden train", "toys", "36.00"), ("Kite", "toys", "24.90"), ("Marble run", "toys", "47.00"),
    ("Jigsaw, 1,000 pieces", "toys", "19.90"), ("Card game", "toys", "11.00"), ("Yo-yo", "toys", "7.50"),
    ("Poetry, collected", "books", "18.00"), ("Atlas", "books", "45.00"), ("Crime novel", "books", "12.90"),
    ("Cookbook", "books", "28.00"), ("Field guide to birds", "books", "23.50"),
    ("Data-intensive designs", "books", "49.00"),
)  # fmt: skip
"""Name, category and price."""

COUNTRIES = ("AT", "BR", "DE", "FR", "IN", "JP", "KE", "PT", "US")
COUNTRY_WEIGHTS = (3, 4, 9, 6, 7, 5, 2, 2, 10)
FIRST_NAMES = (
    "Ada", "Amir", "Ana", "Ben", "Chidi", "Clara", "Dana", "Emil", "Fatma", "Goro", "Hana", "Ines", "Jonas", "Kavya",
    "Lena", "Mateo", "Nia", "Otto", "Priya", "Rosa", "Sami", "Tomas", "Uma", "Wanja", "Yuki", "Zoe",
)  # fmt: skip
LAST_NAMES = (
    "Almeida", "Bauer", "Costa", "Dubois", "Eze", "Fischer", "Gupta", "Haddad", "Ito", "Jansen", "Kimani", "Lopez",
    "Moreau", "Nakamura", "Okafor", "Patel", "Quinn", "Rossi", "Sato", "Tanaka", "Weber", "Yilmaz",
)  # fmt: skip
METHODS = ("card", "transfer", "wallet")
DEVICES = ("desktop", "desktop", "mobile", "mobile", "tablet")
PRAISE = {
    1: ("broke on the first day", "not what the picture shows"),
    2: ("works, mostly", "smaller than I thought"),
    3: ("does what it should", "fine for the price"),
    4: ("very good, one scratch", "would buy again"),
    5: ("the best I have had", "a present that was loved"),
}
