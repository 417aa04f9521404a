"""Consumer groups: a division that is complete, even, sticky and the same for all, and members that come to it."""

from __future__ import annotations

import itertools
import tempfile
from collections import Counter
from collections.abc import Iterator, Mapping
from datetime import timedelta
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headwater.errors import Fenced, UnknownTopic
from headwater.log.embedded.groups import CatalogMembership, divide
from headwater.log.embedded.log import EmbeddedLog
from headwater.log.membership import Place
from headwater.log.options import GroupStart
from headwater.log.topic import Topic
from headwater.testing.clock import ManualClock

LEASE = timedelta(seconds=10)

Members = dict[str, frozenset[int]]
Held = dict[Place, str | None]

names = st.sampled_from("abcdef")
topics = st.frozensets(st.integers(1, 4), min_size=1)
places = st.tuples(st.integers(1, 4), st.integers(0, 9))
held_places = st.dictionaries(places, st.none() | names, max_size=40)
groups = st.dictionaries(names, topics, max_size=6)
# All members want all topics, as they mostly do.
alike = st.frozensets(names, min_size=1).map(lambda chosen: dict.fromkeys(chosen, frozenset({1, 2, 3, 4})))


def loads(members: Members, share: Mapping[Place, str | None]) -> Counter[str]:
    counted = Counter(dict.fromkeys(members, 0))
    counted.update(member for member in share.values() if member is not None)
    return counted


def unevenness(members: Members, share: Mapping[Place, str | None]) -> int:
    return sum(load**2 for load in loads(members, share).values())


@given(groups, held_places)
def test_a_division_is_complete(members: Members, held: Held) -> None:
    share = divide(members, held)
    assert set(share) == set(held)
    for (topic, _), member in share.items():
        wanting = {name for name, wanted in members.items() if topic in wanted}
        assert member in wanting if wanting else member is None


@given(alike, held_places)
def test_members_who_want_the_same_get_the_same(members: Members, held: Held) -> None:
    counted = loads(members, divide(members, held)).values()
    assert max(counted) - min(counted) <= 1


@settings(max_examples=60)
@given(
    st.dictionaries(st.sampled_from("abc"), st.frozensets(st.integers(1, 3), min_size=1), min_size=1),
    st.dictionaries(st.tuples(st.integers(1, 3), st.integers(0, 2)), st.none() | st.sampled_from("abc"), max_size=6),
)
def test_no_division_is_more_even(members: Members, held: Held) -> None:
    wanting: list[list[str | None]] = [
        [name for name in members if place[0] in members[name]] or [None] for place in held
    ]
    best = min(unevenness(members, dict(zip(held, chosen, strict=True))) for chosen in itertools.product(*wanting))
    assert unevenness(members, divide(members, held)) == best


@given(alike, held_places)
def test_as_little_as_possible_moves(members: Members, held: Held) -> None:
    share = divide(members, held)
    had = loads(members, {place: name for place, name in held.items() if name in members})
    moved = sum(1 for place, name in held.items() if name in members and share[place] != name)
    each, more = divmod(len(held), len(members))
    targets = [each + (index < more) for index in range(len(members))]
    assert moved == sum(
        max(0, has - target) for has, target in zip(sorted(had.values(), reverse=True), targets, strict=True)
    )


@given(groups, held_places)
def test_what_is_divided_stays_as_it_is(members: Members, held: Held) -> None:
    share = divide(members, held)
    assert divide(members, share) == share


@given(groups, held_places, st.randoms(use_true_random=False))
def test_everybody_comes_to_the_same_division(members: Members, held: Held, dice: object) -> None:
    def shuffled(pairs: list[tuple[object, object]]) -> list[tuple[object, object]]:
        dice.shuffle(pairs)  # type: ignore[attr-defined]
        return pairs

    other_members = dict(shuffled(list(members.items())))
    other_held = dict(shuffled(list(held.items())))
    assert divide(other_members, other_held) == divide(members, held)  # type: ignore[arg-type]


@given(alike, held_places, names)
def test_a_member_that_leaves_moves_nothing_but_its_own(members: Members, held: Held, leaver: str) -> None:
    share = divide(members, held)
    rest = {name: wanted for name, wanted in members.items() if name != leaver}
    after = divide(rest, share)
    assert all(after[place] == name for place, name in share.items() if name != leaver)


# Members, in a catalog


def never(topic: Topic, partition: int, start: GroupStart) -> int:
    raise AssertionError(f"nobody has to look for {start} in {topic.name}/{partition}")


class Group:
    """The members of one group over a log with two topics, and a clock that stands still."""

    def __init__(self, log: EmbeddedLog, clock: ManualClock) -> None:
        self._log, self.clock = log, clock
        self.members: dict[str, CatalogMembership] = {}

    def join(self, name: str, *topics: str) -> CatalogMembership:
        wanted = topics or ("orders", "payments")
        self.members[name] = CatalogMembership(
            self._log._catalog,
            self.clock,
            "billing",
            name,
            lambda: [(self._log.topic(topic), True) for topic in wanted],
            lease_seconds=LEASE.total_seconds(),
            start="earliest",
            seek=never,
        )
        return self.members[name]

    def claims(self, name: str) -> list[str]:
        return [f"{c.topic.name}/{c.partition}" for c in self.members[name].renew()[0]]

    def settled(self) -> dict[str, list[str]]:
        """What everybody claims once nothing changes any more."""
        for _ in range(10):
            before = {name: member.version() for name, member in self.members.items()}
            found = {name: self.claims(name) for name in self.members}
            if before == {name: member.version() for name, member in self.members.items()}:
                return found
        raise AssertionError("the members do not come to rest")


@pytest.fixture
def log(tmp_path: Path) -> Iterator[EmbeddedLog]:
    with opened(tmp_path) as log:
        yield log


def opened(directory: Path) -> EmbeddedLog:
    log = EmbeddedLog(directory, durability="os", upkeep=False, clock=ManualClock())
    log.create("orders", "id bigint", partitions=3)
    log.create("payments", "id bigint", partitions=2)
    return log


@pytest.fixture
def group(log: EmbeddedLog) -> Group:
    assert isinstance(log._clock, ManualClock)
    return Group(log, log._clock)


ALL = ["orders/0", "orders/1", "orders/2", "payments/0", "payments/1"]


def test_a_first_member_claims_everything_at_once(group: Group) -> None:
    group.join("a")
    assert group.claims("a") == ALL


def test_a_second_member_waits_until_the_first_gives_back(group: Group) -> None:
    group.join("a")
    group.claims("a")
    group.join("b")
    assert group.claims("b") == []
    assert len(group.claims("a")) == 3
    assert sorted(group.claims("a") + group.claims("b")) == ALL


def test_what_is_in_use_is_not_given_back(group: Group) -> None:
    first = group.join("a")
    in_use = [claim.place for claim in first.renew()[0]]
    group.join("b")
    group.claims("b")
    assert len(first.renew(in_use)[0]) == 5
    assert group.claims("b") == []
    first.renew(in_use[:1])
    assert len(group.claims("b")) == 2


def test_the_version_changes_with_the_members_and_with_the_topics(group: Group, log: EmbeddedLog) -> None:
    first = group.join("a")
    _, version = first.renew()
    assert first.version() == version
    assert first.renew()[1] == version
    group.join("b").renew()
    assert first.version() != version
    _, version = first.renew()
    log.alter("payments", partitions=3)
    assert first.version() != version


def test_a_member_that_leaves_frees_its_partitions(group: Group) -> None:
    group.join("a")
    group.join("b")
    group.settled()
    group.members.pop("a").leave()
    assert group.claims("b") == ALL


def test_a_silent_member_is_dropped_after_its_lease_and_not_before(group: Group) -> None:
    group.join("a")
    group.join("b")
    group.settled()
    silent = group.members.pop("a")
    group.clock.advance(LEASE * 0.6)
    assert group.members["b"].keep() is False
    assert len(group.claims("b")) == 2
    group.clock.advance(LEASE * 0.6)
    assert group.members["b"].keep() is True
    assert group.claims("b") == ALL
    assert silent.renew()[0] == []


def test_a_lease_that_is_kept_does_not_end(group: Group) -> None:
    group.join("a")
    group.join("b")
    before = group.settled()
    for _ in range(5):
        group.clock.advance(LEASE * 0.6)
        ended = [member.keep() for member in group.members.values()]
        assert not any(ended)
    assert group.settled() == before


def test_a_reboot_ends_every_lease(group: Group) -> None:
    group.join("a")
    group.settled()
    group.members.clear()
    group.clock.reboot()
    group.join("b")
    assert group.claims("b") == ALL


def test_setting_the_clock_ends_no_lease(group: Group) -> None:
    group.join("a")
    group.join("b")
    before = group.settled()
    group.clock.set_back(timedelta(days=-3650))
    assert not group.members["a"].keep()
    group.clock.set_back(timedelta(days=2 * 3650))
    assert not group.members["a"].keep()
    assert group.settled() == before


def test_epochs_grow_whenever_a_partition_changes_hands(group: Group) -> None:
    first = group.join("a")
    before = {claim.place: claim.epoch for claim in first.renew()[0]}
    first.leave()
    after = {claim.place: claim.epoch for claim in group.join("b").renew()[0]}
    assert all(after[place] > epoch for place, epoch in before.items())


def test_a_newer_member_of_the_same_name_replaces_the_older_one(group: Group) -> None:
    older = group.join("a")
    before = {claim.place: claim.epoch for claim in older.renew()[0]}
    newer = group.join("a")
    claims, _ = newer.renew()
    assert {claim.place for claim in claims} == set(before)
    assert all(claim.epoch > before[claim.place] for claim in claims)
    with pytest.raises(Fenced) as caught:
        older.renew()
    assert caught.value.kind == "member"
    older.keep()
    older.leave()
    assert group.claims("a") == ALL


def test_an_older_member_can_not_keep_the_lease_of_its_replacement(group: Group) -> None:
    older = group.join("a")
    older.renew()
    group.join("a").renew()
    group.clock.advance(LEASE * 0.6)
    older.keep()
    group.clock.advance(LEASE * 0.6)
    group.members.clear()
    group.join("b")
    assert group.claims("b") == ALL


def test_members_of_different_topics_share_what_both_want(group: Group) -> None:
    group.join("a", "orders")
    group.join("b", "orders", "payments")
    group.join("c", "payments")
    settled = group.settled()
    assert sorted(itertools.chain(*settled.values())) == ALL
    assert sorted(map(len, settled.values())) == [1, 2, 2]
    assert all(place.startswith("orders") for place in settled["a"])
    assert all(place.startswith("payments") for place in settled["c"])


def test_where_a_group_begins_is_decided_once(group: Group, log: EmbeddedLog) -> None:
    log.append("orders", [{"id": 1}], partition=0)
    group.join("a").renew()
    log.append("orders", [{"id": 2}], partition=0)
    late = CatalogMembership(
        log._catalog, group.clock, "late", "x", lambda: [(log.topic("orders"), True)], lease_seconds=10,
        start="latest", seek=never,
    )  # fmt: skip
    assert {claim.partition: claim.offset for claim in late.renew()[0]} == {0: 2, 1: 0, 2: 0}
    log.append("orders", [{"id": 3}], partition=0)
    late.leave()
    assert late.renew()[0][0].offset == 2


def test_a_dropped_topic_is_told(group: Group, log: EmbeddedLog) -> None:
    member = group.join("a")
    member.renew()
    log.drop("payments")
    with pytest.raises(UnknownTopic):
        member.renew()


steps = st.lists(st.tuples(st.sampled_from(["join", "leave", "renew", "die", "in use"]), st.sampled_from("abcd")))


@settings(max_examples=25)
@given(steps)
def test_however_members_come_and_go_each_partition_has_one_holder_in_the_end(story: list[tuple[str, str]]) -> None:
    with tempfile.TemporaryDirectory() as folder, opened(Path(folder)) as log:
        assert isinstance(log._clock, ManualClock)
        group = Group(log, log._clock)
        for step, name in [*story, ("join", "a")]:
            member = group.members.get(name)
            if step == "join" and member is None:
                group.join(name)
            elif step == "leave" and member is not None:
                group.members.pop(name).leave()
            elif step == "die" and member is not None:
                del group.members[name]
                group.clock.advance(LEASE * 0.4)
                for other in group.members.values():
                    other.keep()
            elif step == "in use" and member is not None:
                member.renew([claim.place for claim in member.renew()[0]])
            elif member is not None:
                member.renew()
            held = [place for each in group.members for place in _held(log, each)]
            assert len(held) == len(set(held))
        for _ in range(3):
            group.clock.advance(LEASE * 0.6)
            for member in group.members.values():
                member.keep()
        settled = group.settled()
        assert sorted(itertools.chain(*settled.values())) == ALL
        assert max(map(len, settled.values())) - min(map(len, settled.values())) <= 1


def _held(log: EmbeddedLog, member: str) -> list[tuple[int, int]]:
    with log._catalog.read() as tx:
        return tx.execute("SELECT topic_id, partition FROM claims WHERE member = ?", (member,)).fetchall()
