"""Suites: many tasks in one run that survives kills, over one GPU, several, or a cluster, and what they amount to.

1. catalog     a folder of KernelBench-style files, under a name; selection picks levels and tasks of it
2. folder      a suite run's folder: manifest, one line a finished task, one process at a time
3. conductor   hands the tasks that have no line yet to a pool, and writes each line as it comes
4. pool        processes of this machine (seats: one or more per GPU, by memory), or an existing Ray cluster
5. child       one task in a process of its own; kinds says what is done to it
6. score       lines -> success, fast_p, means; compare sets two runs side by side

Import the files in here by name; nothing is loaded early.
"""
