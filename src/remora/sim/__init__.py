"""How does Remora behave over weeks, under faults and when it is killed? A simulated world in one process.

loop, clock, crash      time that jumps, and processes that die without a trace
world                   a Hacker News from a seed (cast: roles of ids; lives: what happens when; threads, bodies, prose)
feed, streams           what changed, and how it is announced
limits, faults, weather hidden limits and everything that goes wrong
provider, listed        the answers of a numbered source and of a listed one (fanned: a list for each channel)
transport               reaches them in virtual time
server, wire            reach them over a real socket
fuzz                    random worlds, each from one seed, judged after every step
checks, meter           whether it was too fast, whether anything is missing or different, what was counted

Only `remora simulate` and the demo import this package; the code that collects does not.
"""
