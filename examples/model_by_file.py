"""A model played through files: the prompt goes to one file, the reply is read from another.

    kernelskill optimize TASK.py --agents llm --model "command:python examples/model_by_file.py FOLDER"

For each question `FOLDER/NNN.prompt.md` appears; whoever plays the model (a person, another program) writes
`FOLDER/NNN.reply.md`. Write it under another name and rename it, or end it with a line `END` that is taken off.
"""

import sys
import time
from pathlib import Path

WAIT_S = 3600.0
POLL_S = 0.2
STILL_S = 1.0
"""A reply without an END line is taken when it has not grown for so long."""


def claimed(folder: Path, prompt: str) -> Path:
    """Write the prompt under the next free number; two questions at once never share one."""
    number = 1
    while True:
        try:
            with (folder / f"{number:03d}.prompt.md").open("x", encoding="utf-8") as file:
                file.write(prompt)
            return folder / f"{number:03d}.reply.md"
        except FileExistsError:
            number += 1


def awaited(path: Path) -> str:
    """The reply, once it is whole; "" if it never comes."""
    end = time.monotonic() + WAIT_S
    size, since = -1, time.monotonic()
    while time.monotonic() < end:
        if path.exists():
            text = path.read_text(encoding="utf-8")
            if text.rstrip().endswith("\nEND"):
                return text.rstrip().removesuffix("END")
            if len(text) != size:
                size, since = len(text), time.monotonic()
            elif text.strip() and time.monotonic() - since >= STILL_S:
                return text
        time.sleep(POLL_S)
    return ""


def main() -> None:
    """One question, one answer."""
    folder = Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    reply = claimed(folder, sys.stdin.read())
    print(f"waiting for {reply}", file=sys.stderr)
    print(awaited(reply))


if __name__ == "__main__":
    main()
