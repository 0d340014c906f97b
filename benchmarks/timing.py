"""Times of several ways to do one thing, taken in turns, so that all of them meet the same noise."""

import statistics
import time


def timed(ways, repeats=5, clock=time.perf_counter):
    """Seconds of each function of ``ways`` (by name), ``repeats`` of each, one after the other."""
    for run in ways.values():
        run()  # compiled, and in the caches
    times = {name: [] for name in ways}
    for _ in range(repeats):
        for name, run in ways.items():
            start = clock()
            run()
            times[name].append(clock() - start)
    return times


def ratio(times, slow, fast):
    """The median over repeats of slow / fast, each within one repeat."""
    return statistics.median(s / f for s, f in zip(times[slow], times[fast]))
