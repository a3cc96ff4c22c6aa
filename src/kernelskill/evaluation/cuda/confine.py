"""How workers on a GPU are confined: they keep the machine's process ids and IPC, without which memory is not shared.

Ways, strongest first: Landlock, a user of nobody's and an empty network together; then without one or two of them.
Each is started once with a probe inside that uses the GPU and tries to break out.
"""

from __future__ import annotations

import os
from functools import cache
from itertools import product

from kernelskill.evaluation.sandbox import Sandbox, Way, attempt, level_of, words


@cache
def sandbox_for(gpu: str) -> Sandbox:
    """The strongest way in which a worker still computes on a GPU; tried once per process.

    Args:
        gpu: its UUID.
    """
    ways: tuple[Way, ...] = ("landlock", "plain")
    users = (True, False) if os.geteuid() == 0 else (False,)
    tries = [
        Sandbox(way, own_user, gpu=gpu, own_network=network)
        for own_user, network, way in product(users, (True, False), ways)
    ]
    passed_over: list[str] = []
    for tried in tries:
        facts, reason = attempt(tried)
        if facts is not None:
            network = ("own network",) if tried.own_network else ()
            layers = (*words(tried, facts), *network, *passed_over)
            return Sandbox(
                tried.way,
                tried.own_user,
                level_of(facts),
                layers,
                facts,
                gpu=gpu,
                own_network=tried.own_network,
            )
        passed_over.append(f"no {_name(tried)}: {reason}")
    return Sandbox("plain", False, "plain", ("limits", "supervisor", *passed_over), gpu=gpu)


def _name(sandbox: Sandbox) -> str:
    parts = (sandbox.way, sandbox.own_user and "own user", sandbox.own_network and "own network")
    return " + ".join(part for part in parts if part)
