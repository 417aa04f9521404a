"""What every log guarantees, which tests of this suite show it, and where a log on Kafka differs."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Guarantee:
    """One line of the table in docs/reference/logs.md. `tests` are names of tests in this folder, run for both logs.

    Where Kafka differs, `kafka` begins with "weaker:" or "not available:" and says how.
    """

    text: str
    tests: tuple[str, ...] = ()
    kafka: str = "same"


GUARANTEES = (
    Guarantee(
        "An acknowledged append is durable, and every handle sees it",
        ("test_an_append_is_seen_by_every_handle_when_it_returns", "test_many_threads_and_handles_append_without_loss"),
        "same, once as many brokers have it as `min.insync.replicas` says; after the loss of all of these, what Kafka "
        "had not written to disk is lost",
    ),
    Guarantee(
        "A commit over topics, bookmarks and group offsets happens as a whole, or not at all",
        (
            "test_a_commit_is_one_position_in_all_topics",
            "test_nothing_is_seen_before_the_end_and_nothing_after_an_error",
            "test_output_and_offsets_move_together",
        ),
        "same, as one Kafka transaction; a commit that takes longer than 20 s is refused",
    ),
    Guarantee(
        "Many commits of a source become durable together, each a position of its own",
        ("test_each_transaction_is_a_commit_of_its_own", "test_reading_begins_and_ends_between_any_two_of_the_commits"),
    ),
    Guarantee(
        "A commit on condition: of racing writers one wins",
        ("test_of_racing_writers_one_wins_each_version", "test_a_condition_that_does_not_hold_raises"),
    ),
    Guarantee(
        "A repeated commit of a named producer is recognized; a newer holder of a name fences the older",
        ("test_a_repeated_commit_is_recognised", "test_a_new_holder_of_a_name_fences_the_old_one"),
    ),
    Guarantee(
        "Writers of other processes are not held up by one that dies",
        kafka="weaker: one that is killed in the middle of a commit holds them up until Kafka aborts it, within 30 s",
    ),
    Guarantee(
        "Positions are totally ordered; a batch splits no commit",
        ("test_halving_a_range_finds_every_commit", "test_a_cut_over_topics_never_splits_a_commit"),
    ),
    Guarantee(
        "Reading from an offset, a time or a position, to an end, or following",
        ("test_where_reading_starts", "test_where_reading_ends", "test_following_gets_what_was_there_and_what_comes"),
    ),
    Guarantee(
        "Offsets count records: 0, 1, 2 …",
        ("test_a_commit_tells_the_offsets_it_gave", "test_system_columns_tell_where_a_record_is"),
        "same in headwater; Kafka's own offsets have gaps, because Kafka counts the marks of transactions",
    ),
    Guarantee(
        "Every type comes back as it was given",
        ("test_every_type_comes_back_as_it_was_given", "test_a_key_of_several_columns_with_values_of_every_kind"),
    ),
    Guarantee(
        "Schemas evolve, and older records are read with the newer one",
        ("test_older_records_read_with_the_newer_schema", "test_any_other_evolution_is_refused_with_its_column"),
    ),
    Guarantee(
        "Records that do not fit are refused or become dead letters, with reason and original",
        (
            "test_a_record_that_does_not_fit_is_named_and_nothing_is_written",
            "test_dead_letters_keep_reason_and_original",
        ),
    ),
    Guarantee(
        "Tables at a position",
        ("test_a_table_has_the_newest_row_of_each_key_at_a_position",),
        "same for an hour; of a compacted topic, positions that are older are refused, because Kafka does not tell how "
        "far compaction has been",
    ),
    Guarantee(
        "A group's partitions are divided evenly, nothing is delivered to two members, a silent member is replaced",
        (
            "test_partitions_are_divided_evenly_and_all_of_them",
            "test_output_of_a_member_that_was_replaced_is_not_committed",
            "test_others_take_over_from_a_member_that_is_silent",
        ),
        "weaker: leases are measured by the clocks of the members' machines, which must agree to within a few seconds",
    ),
    Guarantee(
        "Lag in records, bytes and seconds",
        ("test_lag_counts_what_was_not_committed", "test_lag_in_seconds_is_the_age_of_the_oldest_unread_record"),
        "same; Kafka's own tools see group offsets a moment later",
    ),
    Guarantee(
        "Groups can be moved and deleted, also under their members",
        ("test_members_of_a_group_that_is_forced_continue_from_there", "test_members_of_a_deleted_group_are_told"),
    ),
    Guarantee(
        "Retention by age and bytes; who misses records is told which",
        ("test_what_was_deleted_is_told", "test_a_consumer_is_told_exactly_what_it_missed"),
        "weaker: Kafka deletes when it likes, and headwater learns of it within a minute, or when a read finds out",
    ),
    Guarantee(
        "Old segments move to an archive and are read from there",
        kafka="not available: a topic with an archive is refused; Kafka has tiered storage of its own",
    ),
    Guarantee(
        "Seal, compact now, cap the whole log, check every byte, repair",
        kafka="not available: `log.maintenance` is refused; Kafka looks after its own files",
    ),
    Guarantee(
        "Damaged bytes are found when they are read",
        kafka="weaker: Kafka's checksums are checked; they cover a batch of messages, not the catalog's history",
    ),
    Guarantee(
        "Reading a log that may not be written to",
        kafka="weaker: by Kafka's access rights, not by those of a directory",
    ),
    Guarantee(
        'Bytes reach the disk when the operating system likes (`durability="os"`)', kafka="not available: refused"
    ),
)
