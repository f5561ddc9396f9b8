"""Does Remora keep its promises in worlds that nobody thought of? Production code runs in random worlds, one per seed.

forms        how a list and its details are shown: inline, in parts, in batches, by POST, since a moment, in windows,
             for each channel
dialects     how the provider says "too many" without a 429
credentials  how the credential of a list is replaced from time to time
uses         what is done with the mirror meanwhile: a search index, named readers, retention, verify, import, a second source
scenario     what is drawn: the source, the store, the limits, and a list of incidents
stage        the provider as a client sees it: bans, lies, wrong hints, and the log of arrivals
watched      the store as a process sees it: sometimes unreachable, and every call is checked by the judge
governors    the one place that builds gates
lives        processes: start, crash, stop, start again
beside       programs that work on the same file
searching    whether a search finds exactly what is held
followers    whether a named reader gets every change
retention    whether only what is old and read by all is deleted
dumping      whether an old and damaged dump can be imported at any time
verifying    whether `verify` tells the truth
using        all of these programs of a world
second_source, sharing_account  a list that shares the account of a numbered source, and whether each is served
judge        what must hold after every step
readout      whether the status is true in this world
settling     what must be true once the faults have stopped
world        one scenario from its beginning to its verdict
many         one world after another, on several cores
record       how much has been tried so far
shrink       the shortest scenario that still fails

`python -m remora.sim.fuzz --seed 7` replays one world; `--help` shows the other options.
"""
