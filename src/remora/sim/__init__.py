"""How does Remora behave over weeks, in bad weather, when it is killed? A world in one process to find out.

loop, clock, crash      time that jumps, and processes that die without a trace
world                   a Hacker News made from a seed (cast: who is who; threads; lives: what happens when; bodies; prose)
feed, streams           what changed, and how that is told
limits, faults, weather hidden limits and everything that goes wrong
provider, archive       the answers: a numbered source, and a listed one
transport               the way to them in virtual time
server, wire            the way to them over a real socket
fuzz                    random worlds, each from one seed, judged after every step
checks, meter           was it too fast, is anything missing or different, what was counted

Only `remora simulate` and the demo reach into this package; nothing that collects does.
"""
