"""What a new definition takes over from the one that is there, and what has to be built for it."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

from headwater.engine.arrangements import arrangement_of, owner_of, renamed
from headwater.engine.definition import Definition
from headwater.engine.publication import Excluded, Generation, Switch
from headwater.engine.runs import Run
from headwater.engine.view_store import ViewStore

WHOLE = "whole "
"""What the fingerprint of a generation begins with while it is built without taking anything over."""


@dataclass(frozen=True, slots=True)
class Adoption:
    """By the name of a state, or of a view's content: from which one of the former definition it is taken over.

    `missing` are the names of those that have to be built, `unchanged` the views that stay as they are, and `changed`
    the views that readers will see differently.
    """

    sources: Mapping[str, str]
    missing: Collection[str]
    unchanged: Collection[str]
    changed: Sequence[str]

    @property
    def is_whole(self) -> bool:
        """Whether everything has to be built."""
        return not self.sources

    def arrangements(self, runs: Iterable[str]) -> dict[str, list[str]]:
        """By the names of former arrangements, the names of those that take their runs over."""
        takers: dict[str, list[str]] = {}
        for name, source in self.sources.items():
            takers.setdefault(source, []).append(name)
        return {
            arrangement: [renamed(arrangement, name) for name in takers[owner_of(arrangement)]]
            for arrangement in runs
            if owner_of(arrangement) in takers
        }

    def switch(self, store: ViewStore, epoch: int, built: Generation, former: Generation, keeps: str | None) -> Switch:
        """What lets readers see a generation that was built; `keeps` the former one, under that fingerprint."""
        runs = store.runs(built.id)
        return Switch(
            built.id,
            epoch,
            built.fingerprint.removeprefix(WHOLE),
            kept=list(runs) if self.is_whole else self.built(runs),
            adopted=self.arrangements(store.runs(former.id)),
            unchanged=self.unchanged,
            former=keeps,
        )

    def built(self, runs: Mapping[str, Sequence[Run]]) -> list[str]:
        """Those arrangements of a build that are kept of it."""
        return [arrangement for arrangement in runs if owner_of(arrangement) in self.missing]


def adoption(former: Definition, new: Definition, excluded: Iterable[Excluded] = ()) -> Adoption:
    """What can be taken over: everything that means the same, as long as the same records are excluded.

    A record that one view refuses is passed over by all of them. If that view changes, all are built with the record.
    """
    owners: dict[str, str] = {}
    for name, layout in former.explanation.layouts.items():
        if layout:
            owners.setdefault(_kind(name) + layout, name)
    layouts = new.explanation.layouts
    found = {
        # A view's own content comes first, since others may mean the same.
        name: name if former.explanation.layouts.get(name) == layout else owners[_kind(name) + layout]
        for name, layout in layouts.items()
        if layout and _kind(name) + layout in owners
    }
    unchanged = {view for view in new.views if found.get(arrangement_of(view)) == arrangement_of(view)}
    if any(row.view not in unchanged for row in excluded) or not all(
        arrangement_of(view) in layouts for view in new.views
    ):
        found, unchanged = {}, set()
    return Adoption(
        found,
        [name for name in layouts if name not in found],
        unchanged,
        [view for view in new.views if view not in unchanged],
    )


def adopted_by(built: Generation, former: Generation, excluded: Iterable[Excluded]) -> Adoption:
    """What a generation that is building takes over when readers are to see it."""
    if built.fingerprint.startswith(WHOLE):
        return Adoption({}, list(built.definition.explanation.layouts), set(), list(built.definition.views))
    return adoption(former.definition, built.definition, excluded)


def _kind(name: str) -> str:
    """Views hold what they publish, which is not what operators keep."""
    return "view " if name.startswith(arrangement_of("")) else "state "
