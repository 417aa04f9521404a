"""The embedded log against a model of it: whatever is done, in whatever order, both show the same.

Four machines share their rules: three that look at one side of the log each, and so come deep into it, and one that
does everything. `HYPOTHESIS_PROFILE=thorough pytest tests/property` looks for hours. A failure prints the steps that
lead to it.
"""

from __future__ import annotations

import pytest
from hypothesis import settings

from tests.property.group_rules import GroupRules
from tests.property.life_rules import LifeRules
from tests.property.reading_rules import ReadingRules
from tests.property.topic_rules import TopicRules
from tests.property.upkeep_rules import UpkeepRules
from tests.property.writing_rules import WritingRules


class CommitMachine(WritingRules, ReadingRules, LifeRules):
    """What is committed, with crashes in between."""


class StorageMachine(UpkeepRules, ReadingRules, TopicRules):
    """What becomes of records over time and under new schemas."""


class GroupMachine(GroupRules, TopicRules):
    """Who reads what."""


class LogMachine(GroupRules, WritingRules, ReadingRules, TopicRules, LifeRules):
    """Everything."""


EXAMPLES = settings(max_examples=max(1, settings().max_examples // 10), stateful_step_count=40)
TestCommits, TestStorage = CommitMachine.TestCase, StorageMachine.TestCase
TestGroups, TestLog = GroupMachine.TestCase, LogMachine.TestCase
TestCommits.settings = TestStorage.settings = TestGroups.settings = TestLog.settings = EXAMPLES

# A thorough run takes as long as it is asked to.
pytestmark = pytest.mark.timeout(24 * 3600)
