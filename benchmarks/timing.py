"""Times of several ways to do one thing, taken in turns: noise affects all of them."""

import statistics
import time


def timed(ways, repeats=5, clock=time.perf_counter):
    """Return the seconds of each function of ``ways`` by name, ``repeats`` of each, in turns."""
    for run in ways.values():
        run()  # compile, and fill the caches
    times = {name: [] for name in ways}
    for _ in range(repeats):
        for name, run in ways.items():
            start = clock()
            run()
            times[name].append(clock() - start)
    return times


def ratio(times, slow, fast):
    """Return the median over repeats of slow / fast."""
    return statistics.median(s / f for s, f in zip(times[slow], times[fast]))
