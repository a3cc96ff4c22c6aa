"""What scripted models answer, role by role; who is asked is read from the prompt's first lines."""

import json
import re

ROLES = {
    "You write the first version": "generator",
    "You decide the next change": "planner",
    "You carry out a plan": "optimizer",
    "You find out why": "diagnoser",
    "You mend a candidate": "repairer",
    "You read an implementation": "feature-reader",
}


def role_of(prompt):
    return next(role for said, role in ROLES.items() if said in prompt[:400])


def file(ms, note=""):
    """A correct version that takes so long."""
    return f'Design.\n```python\nMS = {ms}\nNOTE = "{note}"\n\n\nclass ModelNew:\n    pass\n\n\ndef bell(x):\n    return x\n```\n'


def failing(status, note=""):
    return file(0.1, note).replace("class ModelNew", f'STATUS = "{status}"\n\n\nclass ModelNew')


def facts():
    found = {"kernel_kind": "row", "rows": 64, "row_length": 1024, "inner_length": 1024, "passes": 2,
             "bytes": 524288, "transcendentals": 65536, "flops": 262144}  # fmt: skip
    return json.dumps(
        {"facts": [{"name": name, "value": value, "subject": "bell"} for name, value in found.items()]}
    )


def plan(prompt, idea):
    admitted = re.search(r"which a gate admitted by the facts: ([^.]+)\.", prompt)[1].split(", ")
    return json.dumps(
        {
            "skill": admitted[0], "subject": "bell", "bottleneck": "latency of bell, half of the call",
            "refuted": {"name": "memory-bandwidth", "why": "bandwidth_share_ratio is small"}, "steps": [idea],
            "expects": [{"fact": "time_us", "direction": "down", "subject": "bell"}, {"fact": "passes", "direction": "same", "subject": "bell"}],
            "expected_speedup": 1.5, "risk": "none",
        }
    )  # fmt: skip


def diagnosis():
    return json.dumps({"cause": "a slip", "evidence": "line 3", "remedy": "mend line 3", "repairable": True})


class Player:
    """A capable model: a first version of 0.8 ms, then each round a bit less; `files` overrides what it writes."""

    def __init__(self, *files):
        self.files = list(files)
        self.ideas = 0
        self.asked = []

    def __call__(self, number, request):
        from scripted_server import Turn

        return Turn(self.answer(request["prompt"]))

    def answer(self, prompt):
        role = role_of(prompt)
        self.asked.append(role)
        if role == "feature-reader":
            return facts()
        if role == "planner":
            self.ideas += 1
            return plan(prompt, f"idea number {self.ideas}")
        if role == "diagnoser":
            return diagnosis()
        return self.files.pop(0) if self.files else file(round(0.8 - 0.1 * self.asked.count("optimizer"), 3))
