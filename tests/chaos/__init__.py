"""Real processes under kill -9, SIGSTOP, a bad store and too much load; every job is accounted for.

`make chaos SECONDS=…` and `make overload SECONDS=…` run them for as long as wanted.
"""
