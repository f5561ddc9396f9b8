"""What did the other benches say? Their results for the page about performance, each written down after its last run."""

from typing import Final

OTHERS: Final = """## Where the time goes

A walk takes its items through the line in batches of what one tick of the event loop brings, about 50 to 100 here; no item has a
task or a future of its own. Requests that wait together get all turns that are due in one step, answers that came together are heard
and counted together: ordinary answers, nearly all, are judged and learned with one call for each verb. While the pace holds requests
back, those of a backfill or a rescan wait up to 10 ms for each other; any other answer is heard at once, and they before it. A head
that came before, with any length of the body, is not parsed again. In a run over 100,000 items that cost 77 µs each, looked at 800
times a second:

| part | CPU-µs per item |
|---|--:|
| store: judging, SQLite with five indexes | 28 |
| store, in its thread: commits | 9 |
| transport: reading answers | 14 |
| line: decoding, verdict, law | 12 |
| gate and sending | 4 |
| walks, batches and the event loop itself | 10 |

Since then new items are judged and written without a call for each, addresses of one place are not put together again, and ids
and answers are handled many at a time: at once on one core an item costs 0.95 of that (three rounds, 0.94 to 0.95).

In turns with the code before all of this an item cost 83 instead of 102 µs, and 113 instead of 148 when the same machine was slower; over
TLS, then, 139 instead of 182 (the best of four or five runs each).

Results of a backfill wait until there are 256 of them, or 65 ms at most; a live item is written at once, together with all that wait.
PostgreSQL gets two such batches at a time, of 128, and each waits for the server four times. In eight rounds of 40,000 items, in turns with
SQLite, it stored 0.83 times as many items a second on two cores, which the server and the provider share with Remora. That was
while the host was quiet; where others used it, two such runs had 0.71 and 0.75 (0.58 to 1.21), because SQLite needs one core and
PostgreSQL both.

The number of requests in flight is bounded (256 at most), so memory does not grow with the number of items.

## At once on one core

A machine that others use, too, may be twice as fast in one second as in the next; here a loop of 30 ms took 30 to 76. Programs that
run one after the other meet different seconds, so the ratios of the table change from run to run. `python -m bench.beside` runs
them at the same time on one core, and the provider on another: then they meet the same seconds. In three rounds over 60,000 items the
naive program took 2.82 times as much processor time for an item as Remora (2.81 to 2.84), and Scrapy 2.19 took 44.0 times (43.8 to 44.7);
an hour later it was 2.89 (2.73 to 2.99) and 47.1 (42.8 to 47.7), and just before that, with the code of the day before, 2.54 and 39.2.
`python -m bench.beside --other CHECKOUT` compares two versions of Remora in the same way; two runs differ by about 1 %.

Measured so, uvloop takes 0.98 times as much in a catch-up and as much at a pace: the transport goes past the event loop for nearly
everything that is read and sent. So Remora does not use it.

## At a pace

`python -m bench.long_run --for-s 600` backfills for ten minutes at 2,600 requests a second over TLS from a provider 40 ms away. The run
has a core of its own, and so has the provider. A process on the core of the run times a short loop ten times a second: where all loops
were quick and the host took no processor away, nobody else used the machine, and what was done then is told apart.

Ten minutes with Debian's Python reached 96.1 % of the pace with 39.0 % of one core (156 µs per item) and 171 MB; in the 115 seconds
that were quiet, 99.0 % with 30.7 % (119 µs). No window held more than the ceiling allows. Live items came after 54 ms, and 99 % of them
within 101 ms (45 and 106 without the backfill). At least once answers came so slowly that the pace was cut for a moment: the provider had to
wait for its core as well. On a busier host twenty minutes had 94.4 % and 46.9 %, and a minute in which the host took more than
half of the processors reached 46 %. At a pace an item costs more than in a catch-up, because few answers come at once, and what
they need is no longer in the caches of the processor.

At once on one core at 1,300 requests a second, an item costs 0.87 of what it did before answers were heard a burst at a time, heads were
known whatever the length of the body, and turns were given up to nearly a burst ahead (two rounds, 0.87 and 0.88).

Which Python runs it matters as much: the one of Debian is built with its own profile, one that is compiled without that is not. In
turns, an item cost 0.93 with Debian's 3.11 of what it cost with a plain build.

## On a busy machine

`python -m bench.busy` catches up from a cold start beside eight programs that never rest, on two cores. The provider has a real-time
priority, so that it is never slow, and refuses nothing: whatever slows the pace down would be our own doing. In 45 seconds with each ceiling:

| ceiling | items stored | fastest pace | slowed down | above the ceiling in the fullest window | load |
|--:|--:|--:|---|--:|--:|
| 20/s | 473 | 20/s | never | +0.00 | 6.4 |
| 300/s | 3,676 | 300/s | never | +0.81 | 7.9 |
| 1,000/s | 12,782 | 1,000/s | never | -2.19 | 8.8 |
| 100,000/s | 32,867 | 100,000/s | never | -999.00 | 9.2 |

The window is measured where requests arrive. Between the gate's last look at the clock and the arrival such a machine delays some of them,
so that the next one follows closer: 0.81 of a request at 300/s are 2.7 ms. The gate asserts the ceiling at every departure.

## In a large mirror

`python -m bench.scale` fills a SQLite store with ten million items as a backfill does it, without requests. An item cost 37.1 µs of
processor time among the first 10,000 and 35.8 µs in the tenth million, beside other work; memory stayed at 146 MB. Then 100,000 more cost
35.7 µs each, and in an empty store 34.6 µs, in turns. `remora status` took 0.29 s and `remora gaps` 0.26 s.

Rows are shorter since then, and on a quicker host a million comments cost 20.5 µs each. Their file has 1.21 bytes for each byte of a body:
five indexes and the change feed are in it. 100,000 items of all kinds of the simulated Hacker News take 1.26.

`python -m bench.scale --postgres` fills a PostgreSQL on the same machine. An item cost 35.5 µs of our processor time and 41.0 µs of the
server's among the first 10,000, and 39.5 and 50.4 µs in the tenth million, while the load of the machine rose from 2 to 7 by other work;
our memory stayed at 76 MB. Then `remora status` took 0.48 s and `remora gaps` 0.40 s. The same load for both: after four million, 100,000
more cost 31.7 and 45.3 µs, and in an empty database 31.9 and 41.8 µs (median of three, in turns).
"""
