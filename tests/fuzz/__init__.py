"""Hostile input for what reads bytes that others wrote: `python -m tests.fuzz --seconds N`.

Each target (`targets`, `sockets`, `port`) takes any bytes and says what came of them, or raises.
Inputs come from three engines: seeded mutations of good and bad examples (`mutate`), Hypothesis
(`properties`), and, where it is installed, atheris (`guided`), which follows the code's branches.
`guard` watches over each input: no crash, no hang by CPU time, bounded memory.
"""
