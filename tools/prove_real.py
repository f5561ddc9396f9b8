"""Which faults of a real machine have a test with real processes, files or servers?"""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Real:
    """One fault, and the tests that show what happens."""

    fault: str
    expected: str
    shown_by: tuple[str, ...]  # file::test


REAL: tuple[Real, ...] = (
    Real(
        "SIGSTOP for some seconds",
        "it goes on; the ceiling holds; whoever was replaced is refused",
        (
            "tests/integration/test_process_limits.py::test_a_harmed_process_loses_nothing_and_the_next_one_completes_the_mirror",
            "tests/integration/test_postgres_singleton.py::test_a_killed_and_a_frozen_holder_are_replaced_and_never_overlap",
        ),
    ),
    Real(
        "PostgreSQL restarted",
        "it waits, says so and goes on",
        (
            "tests/integration/test_database_gone.py::test_a_service_waits_for_its_database_and_goes_on_with_nothing_lost",
            "tests/integration/test_postgres_faults.py::test_a_restarted_server_is_found_again_and_what_was_acknowledged_is_there",
        ),
    ),
    Real(
        "PostgreSQL cuts all connections, as in a failover",
        "they are replaced",
        ("tests/integration/test_postgres_faults.py::test_cut_connections_are_replaced_without_anybody_noticing",),
    ),
    Real(
        "PostgreSQL read-only",
        "it is named; work goes on as soon as writes are possible",
        (
            "tests/integration/test_postgres_faults.py::test_a_read_only_server_is_named_and_left_as_soon_as_writes_are_possible_again",
        ),
    ),
    Real(
        "PostgreSQL out of connections",
        "callers wait and are told in the end",
        (
            "tests/integration/test_postgres_faults.py::test_when_all_connections_are_busy_callers_wait_and_are_told_in_the_end",
            "tests/integration/test_postgres_faults.py::test_a_full_disk_and_a_full_server_tell_the_operator_what_to_do",
        ),
    ),
    Real(
        "PostgreSQL locked",
        "the lock is named",
        ("tests/integration/test_postgres_faults.py::test_a_lock_that_is_not_free_in_time_is_named",),
    ),
    Real(
        "full disk",
        "what does not fit is not acknowledged",
        (
            "tests/integration/test_sqlite_writing.py::test_a_full_disk_fails_every_caller_of_the_batch_and_nothing_is_half_written",
        ),
    ),
    Real(
        "no descriptors",
        "it is our own fault, not the provider's; nothing is lost",
        (
            "tests/integration/test_http_exhausted.py::test_a_request_without_a_free_descriptor_is_our_own_fault",
            "tests/integration/test_process_limits.py::test_a_harmed_process_loses_nothing_and_the_next_one_completes_the_mirror",
        ),
    ),
    Real(
        "no memory",
        "nothing is lost; the next process completes the mirror",
        (
            "tests/integration/test_process_limits.py::test_a_harmed_process_loses_nothing_and_the_next_one_completes_the_mirror",
        ),
    ),
    Real(
        "a foreign reader",
        "the log beside the file grows, and is cut afterwards",
        (
            "tests/integration/test_sqlite_file.py::test_the_log_grows_while_a_foreign_reader_reads_and_shrinks_afterwards",
        ),
    ),
    Real(
        "symlinks and other names of the file",
        "no second writer",
        ("tests/integration/test_sqlite_lock.py::test_no_other_name_lets_a_second_writer_in",),
    ),
    Real(
        "the system clock set back",
        "our own clock runs on",
        ("tests/gate/test_system_clock.py::test_the_wall_clock_runs_on_when_the_system_clock_is_set_back",),
    ),
)
