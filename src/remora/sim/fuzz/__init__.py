"""Which worlds has nobody thought of? Random ones: everything is drawn from one seed, and production code lives in it.

scenario     what is drawn: the source, the store, the limits, and a list of incidents
stage        the provider as a client meets it: bans, lies, wrong hints, and the log of arrivals
watched      the store as a process meets it: sometimes away, and every call seen by the judge
governors    the one place that builds gates
lives        processes: start, crash, stop, start again
judge        what must hold after every step
readout      whether the words of the status are true in this world
settling     what must be true once the faults have stopped
world        one scenario from its beginning to its verdict
shrink       the shortest scenario that still fails

`python -m remora.sim.fuzz --seed 7` replays one world; `--help` tells the rest.
"""
