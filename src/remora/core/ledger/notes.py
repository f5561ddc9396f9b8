"""Under which names does the store keep a source's notes? All names are here, so that two writers never share one."""

from typing import Final

NEWEST_NOTE: Final = "newest_id"  # the highest id that the source reported
# The highest id that an item proves. Without it a stored newest id is only as believable as the items in the store.
PROVEN_NOTE: Final = "proven_id"
LIVE_FROM_NOTE: Final = "live_from"  # the first id that was collected live; history ends before it
LAST_EVENT_NOTE: Final = "last_event"  # of the stream of changes
UPDATES_LIST_NOTE: Final = "updates_list"  # the ids and marks that the list of changes showed last
UPDATE_AGES_NOTE: Final = "update_ages"
RESCAN_DONE_NOTE: Final = "rescan_done"  # the last finished pass
RESCAN_UNDER_WAY_NOTE: Final = "rescan_under_way"
RESCAN_WANTED_NOTE: Final = "rescan_wanted"
BACKLOG_NOTE: Final = "backlog"  # what a run of a listed source left
UNREAD_NOTE: Final = (
    "unread_page"  # with a fingerprint: where a page is that could not be read, and which marks surround it
)
ENTRY_MARK_NOTE: Final = "entry_mark"  # with a fingerprint: the watermark of the list of one entry of another source
DECLARED_NOTE: Final = (
    "declared"  # where the declaration of the last run had the list, the marks of its entries and their details
)
FULL_WALK_NOTE: Final = "full_walk"  # when a walk last reached the end of the list
SKIPPING_NOTE: Final = (
    "skipping"  # the latest walk that may have skipped entries, and a full one that is not judged yet
)
# What belongs to no source is kept under a name that no source can have.
OF_ALL_SOURCES: Final = "*"
ALARMS_TOLD_NOTE: Final = "alarms_told"  # of all sources: the alarms whose end the owner has to hear

STEERING_NOTE: Final = "steering"  # what an operator ordered: a pause, a lower ceiling
TIMELINE_NOTE: Final = "timeline"  # what happened, for the console
PIECE_NOTE: Final = "piece"  # with a fingerprint and a number: a piece of a document that is not whole yet
LONG_HISTORY_NOTE: Final = "long_history"  # the console's chart of 30 days
RATE_HISTORY_NOTE: Final = "rate_history"  # the console's chart
