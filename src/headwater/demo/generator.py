"""What customers do, made up: page views, and transactions for the database. The same seed does the same.

Everything here is pure: time comes in with each call, and nothing is sent. A transaction may be carried out twice with
the effect of once, so that the one that sends it can send it again when an answer got lost.
"""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from decimal import Decimal
from typing import NamedTuple

from headwater.demo.catalogue import (
    COUNTRIES,
    COUNTRY_WEIGHTS,
    DEVICES,
    FIRST_NAMES,
    LAST_NAMES,
    METHODS,
    PRAISE,
)
from headwater.demo.tables import insert

# Per second. A visit has about seven page views, and every third ends with an order.
VISITS, NEW_CUSTOMERS, MOVES, PRICES = 2.0, 0.1, 0.03, 0.03
REVIEWS, REVIEWS_DELETED, FOLLOWS, UNFOLLOWS = 0.2, 0.03, 0.2, 0.05
VISITS_MAX = 200
"""Visitors at the same time: who comes while the shop cannot take orders does not wait for ever."""

PAGE_CHANCE, CART_CHANCE, BUY_CHANCE, OFFLINE_CHANCE = 0.3, 0.15, 0.6, 0.15
CANCELLED_CHANCE, FORGOTTEN_CHANCE, DELETED_CHANCE = 0.07, 0.05, 0.3
OFFLINE_SECONDS = (20.0, 120.0)
PAYMENT_SECONDS, SHIPPING_SECONDS, FORGOTTEN_SECONDS = (3.0, 20.0), (10.0, 60.0), (200.0, 400.0)


class Statement(NamedTuple):
    """SQL and its values."""

    sql: str
    values: tuple[object, ...]


Transaction = tuple[Statement, ...]
PageView = dict[str, object]


@dataclass(slots=True)
class Known:
    """What the database holds when traffic begins."""

    customers: dict[int, str]
    """Countries by id."""
    products: dict[int, Decimal]
    """Prices by id."""
    open_orders: Mapping[int, tuple[str, Decimal]]
    """Status and total by id."""
    follows: set[tuple[int, int]]
    reviews: list[int]
    next_order: int = 1
    next_payment: int = 1
    next_review: int = 1


@dataclass(slots=True)
class Visit:
    """Somebody who looks around. What a phone does without a network is held back."""

    session: str
    customer: int
    device: str
    pages: int
    offline: bool
    cart: list[int] = field(default_factory=list)


class Step(NamedTuple):
    """What becomes of an order at a moment."""

    at: datetime
    order: int
    status: str


class Generator:
    """Customers at work. Call `browse` and `trade` now and then; what they give is for the time since the last call."""

    def __init__(self, seed: int, known: Known, now: datetime) -> None:
        self._chance = random.Random(seed)  # noqa: S311 - customers, not secrets
        self._known, self._began = known, f"{int(now.timestamp()):x}"
        self._browsed_at = self._traded_at = now
        self._visits: list[Visit] = []
        self._checkouts: list[Visit] = []
        self._held: list[tuple[datetime, PageView]] = []
        self._steps = [self._after(now, each, *_NEXT[status]) for each, (status, _) in known.open_orders.items()]
        self._totals = {each: total for each, (_, total) in known.open_orders.items()}
        self._sessions = 0

    def browse(self, now: datetime) -> list[PageView]:
        """Page views since the last call, and those of phones that have found a network again."""
        seconds = self._elapsed("_browsed_at", now)
        for _ in range(self._times(VISITS * seconds)):
            if len(self._visits) < VISITS_MAX:
                self._visits.append(self._arrive())
        found: list[PageView] = []
        for visit in list(self._visits):
            if self._chance.random() < 1 - (1 - PAGE_CHANCE) ** (2 * seconds):
                self._look(visit, now, found)
        due = [view for at, view in self._held if at <= now]
        self._held = [(at, view) for at, view in self._held if at > now]
        return [*due, *found]

    def trade(self, now: datetime) -> list[Transaction]:
        """Transactions since the last call, in the order in which they happen."""
        seconds = self._elapsed("_traded_at", now)
        found = [self._join(now) for _ in range(self._times(NEW_CUSTOMERS * seconds))]
        found += [self._order(visit, now) for visit in self._checkouts]
        self._checkouts.clear()
        due = sorted(step for step in self._steps if step.at <= now)
        self._steps = [step for step in self._steps if step.at > now]
        found += [self._go_on(step, now) for step in due]
        for rate, make in (
            (MOVES, self._move),
            (PRICES, self._price),
            (REVIEWS, self._review),
            (REVIEWS_DELETED, self._delete_review),
            (FOLLOWS, self._follow),
            (UNFOLLOWS, self._unfollow),
        ):
            for _ in range(self._times(rate * seconds)):
                if transaction := make(now):
                    found.append(transaction)
        return found

    def _elapsed(self, since: str, now: datetime) -> float:
        before: datetime = getattr(self, since)
        setattr(self, since, now)
        return max(0.0, (now - before).total_seconds())

    def _times(self, expected: float) -> int:
        """This many times on average."""
        whole = int(expected)
        return whole + (self._chance.random() < expected - whole)

    def _arrive(self) -> Visit:
        self._sessions += 1
        device = self._chance.choice(DEVICES)
        return Visit(
            f"{self._began}-{self._sessions}",
            self._customer(),
            device,
            self._chance.randint(2, 12),
            offline=device == "mobile" and self._chance.random() < OFFLINE_CHANCE,
        )

    def _look(self, visit: Visit, now: datetime, found: list[PageView]) -> None:
        """One page more; with the last one the visit ends, for some with an order."""
        product = self._product()
        in_cart = self._chance.random() < CART_CHANCE
        if in_cart:
            visit.cart.append(product)
        view = page_view(visit.session, visit.customer, product, "cart" if in_cart else "view", visit.device, now)
        view["seconds"] = str(self._chance.randint(2, 90))
        if visit.offline:
            self._held.append((self._later(now, OFFLINE_SECONDS), view))
        else:
            found.append(view)
        visit.pages -= 1
        if visit.pages <= 0:
            self._visits.remove(visit)
            if visit.cart and not visit.offline and self._chance.random() < BUY_CHANCE:
                self._checkouts.append(visit)

    def _join(self, now: datetime) -> Transaction:
        chosen = max(self._known.customers, default=0) + 1
        country = self._chance.choices(COUNTRIES, COUNTRY_WEIGHTS)[0]
        self._known.customers[chosen] = country
        return (Statement(insert("customers"), (chosen, self._name(), country, now)),)

    def _order(self, visit: Visit, now: datetime) -> Transaction:
        """An order with its lines, which comes to be or not as a whole."""
        known = self._known
        order, known.next_order = known.next_order, known.next_order + 1
        chosen = dict.fromkeys(visit.cart)
        lines = [(each, self._chance.randint(1, 3), known.products[each]) for each in chosen]
        total = sum((quantity * price for _, quantity, price in lines), Decimal(0))
        country = known.customers[visit.customer]
        row = (order, visit.customer, visit.session, country, "placed", total, now)
        self._totals[order] = total
        chance = self._chance.random()
        if chance < FORGOTTEN_CHANCE:
            self._steps.append(self._after(now, order, FORGOTTEN_SECONDS, "cancelled"))
        else:
            cancelled = chance < FORGOTTEN_CHANCE + CANCELLED_CHANCE
            self._steps.append(self._after(now, order, PAYMENT_SECONDS, "cancelled" if cancelled else "paid"))
        return (
            Statement(insert("orders"), row),
            *(Statement(insert("order_lines"), (order, number, *line)) for number, line in enumerate(lines, 1)),
        )

    def _go_on(self, step: Step, now: datetime) -> Transaction:
        """The next thing that happens to an order: paid, shipped, cancelled or deleted."""
        order, status = step.order, step.status
        if status == "deleted":
            return (Statement("DELETE FROM orders WHERE id = %s", (order,)),)
        changed = Statement("UPDATE orders SET status = %s WHERE id = %s", (status, order))
        total = self._totals[order]
        if status == "paid":
            self._steps.append(self._after(now, order, SHIPPING_SECONDS, "shipped"))
            known = self._known
            payment, known.next_payment = known.next_payment, known.next_payment + 1
            row = (payment, order, total, self._chance.choice(METHODS), now)
            return (Statement(insert("payments"), row), changed)
        del self._totals[order]
        if status == "cancelled" and self._chance.random() < DELETED_CHANCE:
            self._steps.append(self._after(now, order, SHIPPING_SECONDS, "deleted"))
        return (changed,)

    def _move(self, _: datetime) -> Transaction:
        customer, country = self._customer(), self._chance.choice(COUNTRIES)
        self._known.customers[customer] = country
        return (Statement("UPDATE customers SET country = %s WHERE id = %s", (country, customer)),)

    def _price(self, _: datetime) -> Transaction:
        product = self._product()
        price = (self._known.products[product] * self._chance.randint(92, 108) / 100).quantize(Decimal("0.01"))
        self._known.products[product] = price
        return (Statement("UPDATE products SET price = %s WHERE id = %s", (price, product)),)

    def _review(self, now: datetime) -> Transaction:
        known = self._known
        review, known.next_review = known.next_review, known.next_review + 1
        known.reviews.append(review)
        stars = self._chance.choices((1, 2, 3, 4, 5), (1, 1, 2, 4, 5))[0]
        text = self._chance.choice(PRAISE[stars])
        return (Statement(insert("reviews"), (review, self._customer(), self._product(), stars, text, now)),)

    def _delete_review(self, _: datetime) -> Transaction | None:
        if not self._known.reviews:
            return None
        review = self._known.reviews.pop(self._chance.randrange(len(self._known.reviews)))
        return (Statement("DELETE FROM reviews WHERE id = %s", (review,)),)

    def _follow(self, _: datetime) -> Transaction | None:
        pair = (self._customer(), self._customer())
        if pair[0] == pair[1] or pair in self._known.follows:
            return None
        self._known.follows.add(pair)
        return (Statement(insert("follows"), pair),)

    def _unfollow(self, _: datetime) -> Transaction | None:
        if not self._known.follows:
            return None
        # Sorted, because the order of a set is not the same in every process.
        pair = self._chance.choice(sorted(self._known.follows))
        self._known.follows.remove(pair)
        return (Statement("DELETE FROM follows WHERE follower = %s AND followed = %s", pair),)

    def _customer(self) -> int:
        """Some come more often than others."""
        customers = list(self._known.customers)
        return customers[int(len(customers) * self._chance.random() ** 1.5)]

    def _product(self) -> int:
        products = list(self._known.products)
        return products[int(len(products) * self._chance.random() ** 1.5)]

    def _name(self) -> str:
        return f"{self._chance.choice(FIRST_NAMES)} {self._chance.choice(LAST_NAMES)}"

    def _after(self, now: datetime, order: int, seconds: tuple[float, float], status: str) -> Step:
        return Step(self._later(now, seconds), order, status)

    def _later(self, now: datetime, seconds: tuple[float, float]) -> datetime:
        return now + timedelta(seconds=self._chance.uniform(*seconds))


_NEXT = {"placed": (FORGOTTEN_SECONDS, "paid"), "paid": (SHIPPING_SECONDS, "shipped")}
"""What becomes of an order that was open when traffic began, and when."""


def page_view(session: str, customer: int, product: int, action: str, device: str, at: datetime) -> PageView:
    """A record of the topic `page_views`, of somebody who looked for ten seconds."""
    return {
        "session": session,
        "customer_id": customer,
        "product_id": product,
        "action": action,
        "device": device,
        "seconds": "10",
        "at": at.isoformat(),
    }
