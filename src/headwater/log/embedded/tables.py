"""The tables of a catalog: what is known of a log, its topics, segments, followers, producers and groups."""

from __future__ import annotations

TABLES = """
CREATE TABLE log (
    one INTEGER PRIMARY KEY CHECK (one = 1),
    format INTEGER NOT NULL,
    commit_number INTEGER NOT NULL,
    committed_at INTEGER NOT NULL,
    topics_version INTEGER NOT NULL,
    bytes_max INTEGER,
    version INTEGER NOT NULL
);
CREATE TABLE topics (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    name TEXT NOT NULL UNIQUE,
    key TEXT NOT NULL,
    partitions INTEGER NOT NULL,
    event_time TEXT,
    settings TEXT NOT NULL,
    partition_by TEXT NOT NULL
);
CREATE TABLE dropped (
    name TEXT PRIMARY KEY
) WITHOUT ROWID;
CREATE TABLE schemas (
    topic_id INTEGER NOT NULL,
    version INTEGER NOT NULL,
    arrow BLOB NOT NULL,
    PRIMARY KEY (topic_id, version)
) WITHOUT ROWID;
CREATE TABLE partitions (
    topic_id INTEGER NOT NULL,
    partition INTEGER NOT NULL,
    start_offset INTEGER NOT NULL,
    end_offset INTEGER NOT NULL,
    active_segment INTEGER,
    compacted_commit INTEGER NOT NULL,
    compacted_offset INTEGER NOT NULL,
    deleted_commit INTEGER NOT NULL,
    forgotten_commit INTEGER NOT NULL,
    PRIMARY KEY (topic_id, partition)
) WITHOUT ROWID;
CREATE TABLE segments (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    topic_id INTEGER NOT NULL,
    partition INTEGER NOT NULL,
    base_offset INTEGER NOT NULL,
    end_offset INTEGER NOT NULL,
    first_commit INTEGER NOT NULL,
    last_commit INTEGER NOT NULL,
    first_at INTEGER NOT NULL,
    last_at INTEGER NOT NULL,
    state TEXT NOT NULL,
    file TEXT NOT NULL,
    bytes INTEGER NOT NULL,
    rows INTEGER NOT NULL,
    checksum INTEGER,
    marked INTEGER NOT NULL,
    archive TEXT,
    object TEXT,
    local INTEGER NOT NULL DEFAULT 1
);
CREATE INDEX segments_by_offset ON segments (topic_id, partition, end_offset);
CREATE INDEX segments_by_state ON segments (state) WHERE state = 'closed';
CREATE TABLE marks (
    segment_id INTEGER NOT NULL,
    offset INTEGER NOT NULL,
    commit_number INTEGER NOT NULL,
    at INTEGER NOT NULL,
    byte INTEGER NOT NULL,
    PRIMARY KEY (segment_id, offset)
) WITHOUT ROWID;
CREATE TABLE archives (
    location TEXT PRIMARY KEY,
    url TEXT NOT NULL
) WITHOUT ROWID;
CREATE TABLE archive_owner (
    name TEXT NOT NULL,
    catalog TEXT NOT NULL
);
CREATE TABLE unnamed_objects (
    archive TEXT NOT NULL,
    object TEXT NOT NULL,
    remove_at INTEGER,
    PRIMARY KEY (archive, object)
) WITHOUT ROWID;
CREATE TRIGGER objects_of_segments AFTER DELETE ON segments WHEN OLD.object IS NOT NULL
BEGIN INSERT INTO unnamed_objects VALUES (OLD.archive, OLD.object, NULL); END;
CREATE TABLE losses (
    topic_id INTEGER NOT NULL,
    partition INTEGER NOT NULL,
    first_offset INTEGER NOT NULL,
    last_offset INTEGER NOT NULL,
    reason TEXT NOT NULL,
    repaired_at INTEGER NOT NULL
);
CREATE TABLE followers (
    name TEXT NOT NULL,
    kind TEXT NOT NULL,
    topic_id INTEGER NOT NULL,
    commit_number INTEGER NOT NULL,
    since TEXT NOT NULL,
    moved_at INTEGER NOT NULL,
    PRIMARY KEY (name, topic_id)
) WITHOUT ROWID;
CREATE TABLE missed (
    follower TEXT NOT NULL,
    kind TEXT NOT NULL,
    topic_id INTEGER NOT NULL,
    partition INTEGER NOT NULL,
    first_offset INTEGER NOT NULL,
    last_offset INTEGER NOT NULL,
    reason TEXT NOT NULL,
    at INTEGER NOT NULL,
    PRIMARY KEY (follower, kind, topic_id, partition, first_offset)
) WITHOUT ROWID;
CREATE TABLE trims (
    topic_id INTEGER NOT NULL,
    partition INTEGER NOT NULL,
    commit_number INTEGER NOT NULL,
    first_offset INTEGER NOT NULL,
    PRIMARY KEY (topic_id, partition, commit_number)
) WITHOUT ROWID;
CREATE TABLE producers (
    name TEXT PRIMARY KEY,
    epoch INTEGER NOT NULL,
    sequence INTEGER NOT NULL,
    commit_number INTEGER NOT NULL
) WITHOUT ROWID;
CREATE TABLE bookmarks (
    name TEXT PRIMARY KEY,
    value TEXT NOT NULL,
    commit_number INTEGER NOT NULL
) WITHOUT ROWID;
CREATE TABLE epochs (
    one INTEGER PRIMARY KEY CHECK (one = 1),
    last INTEGER NOT NULL
);
CREATE TABLE groups (
    name TEXT PRIMARY KEY,
    version INTEGER NOT NULL,
    newest_topic INTEGER NOT NULL
) WITHOUT ROWID;
CREATE TABLE members (
    group_name TEXT NOT NULL,
    member TEXT NOT NULL,
    topics TEXT NOT NULL,
    boot TEXT NOT NULL,
    lease_until REAL NOT NULL,
    epoch INTEGER NOT NULL,
    PRIMARY KEY (group_name, member)
) WITHOUT ROWID;
CREATE TABLE claims (
    group_name TEXT NOT NULL,
    topic_id INTEGER NOT NULL,
    partition INTEGER NOT NULL,
    member TEXT,
    epoch INTEGER NOT NULL,
    offset INTEGER,
    moved_at INTEGER,
    PRIMARY KEY (group_name, topic_id, partition)
) WITHOUT ROWID;
"""
