"""Text of candidates whose calls are replayed as CUDA graphs: see `replay`."""

from __future__ import annotations

from kernelskill.program.cuda.printed import printed

REPLAY = printed("replay")
FIELD = """\
        if "_replay" not in self.__dict__:
            self._replay = Replay()
"""
AROUND_MODULE = '''\
class ModelNew({entry}):
    """{summary}"""

    def forward(self, *args, **kwargs):
        """As {entry}."""
{field}        return self._replay(self, super().forward, *args, **kwargs)
'''
AROUND_FUNCTION = '''\
class ModelNew(nn.Module):
    """{summary}"""

    def forward(self, *args, **kwargs):
        """As {entry}."""
{field}        return self._replay(self, {entry}, *args, **kwargs)
'''


def around(source: str, entry: str, kind: str, summary: str) -> str:
    """A file whose `ModelNew` is the reference as it is, replayed.

    Args:
        source: text that defines the reference.
        entry: name of its class or function.
        kind: "module" or "function".
        summary: docstring of `ModelNew`.

    Raises:
        ProgramError: the text defines a name that the replay needs.
    """
    REPLAY.require_no_clash((source,))
    model = AROUND_FUNCTION if kind == "function" else AROUND_MODULE
    imports = "\n".join((*REPLAY.standard, "", *REPLAY.packages))
    parts = [source.rstrip(), imports, REPLAY.body, model.format(entry=entry, summary=summary, field=FIELD)]
    return "\n\n\n".join(parts)


def replayed(declared: list[str], passed: str) -> list[str]:
    """The end of a `forward` whose kernels are replayed, and the head of the method that holds them.

    Args:
        declared: parameters of `forward`, without self.
        passed: the same as the arguments of a call.
    """
    arguments = ", ".join(["self", "self._proven_forward", *([passed] if passed else [])])
    return [
        *FIELD.rstrip().splitlines(),
        f"        return self._replay({arguments})",
        "",
        f"    def _proven_forward({', '.join(['self', *declared])}):",
        '        """What is captured: calls like those that the kernels were proven on."""',
    ]
