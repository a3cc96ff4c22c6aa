"""What may come back from a model, and what is made of it."""

import pytest
from pydantic import BaseModel

from kernelskill.agents.llm.reading import UnusableReply, answer_of, meaning_of, source_of

FILE = "import torch\n\n\nclass ModelNew:\n    pass\n"


class Point(BaseModel):
    x: int
    y: int


@pytest.mark.parametrize(
    "text",
    [
        f"```python\n{FILE}```",
        f"Some words.\n```py\n{FILE}```\nAnd a plan:\n```json\n{{}}\n```",
        f"```\n{FILE}```",
        FILE,
        f"<think>```python\nclass Other: pass\n```</think>\n```python\n{FILE}```",
        f"First a sketch:\n```python\nx = 1\n```\nthen all:\n```python\n{FILE}```",
        f"```python\n{FILE}```\nand how to use it:\n```python\nModelNew()\n```",
        "```python\ndef f(x):\n    return x\n\n\nModelNew = f\n```",
    ],
)
def test_the_file_is_found(text):
    assert "ModelNew" in source_of(text)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("I cannot do this.", "no ```python block"),
        ("", "no ```python block"),
        (f"```python\n{FILE}", "cut off"),
        ("```python\nclass ModelNew(:\n```", "not Python: line 1"),
        ("```python\nclass Model:\n    pass\n```", "no class ModelNew"),
        ("```cpp\nint main() {}\n```", "no ```python block"),
        ("```python\n\x00\n```", "not Python"),
    ],
)
def test_what_is_no_file_is_told_to_the_model(text, said):
    with pytest.raises(UnusableReply, match=said):
        source_of(text)


@pytest.mark.parametrize(
    "text",
    [
        '{"x": 1, "y": 2}',
        'Sure!\n```json\n{"x": 1, "y": 2}\n```',
        'The example {"x": 0} of the question; mine: {"x": 1, "y": 2}',
        '<thinking>{"x": 9, "y": 9}</thinking>{"x": 1, "y": 2} {broken',
        '```\n{"x": 1,\n "y": 2}\n```',
    ],
)
def test_the_object_is_found(text):
    assert answer_of(text, Point) == Point(x=1, y=2)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("no braces", "no JSON object"),
        ("{'x': 1}", "no JSON object"),
        ('{"x": 1}', "y: Field required"),
        ('{"x": "a", "y": 2}', "x: Input should be a valid integer"),
    ],
)
def test_what_is_no_answer_is_told_to_the_model(text, said):
    with pytest.raises(UnusableReply, match=said):
        answer_of(text, Point)


def test_a_file_is_the_same_whatever_its_comments_and_layout():
    assert meaning_of(FILE) == meaning_of('"""Title."""\nimport torch  # all\nclass ModelNew:\n    pass\n')
    assert meaning_of(FILE) != meaning_of(FILE.replace("torch", "math"))


def test_kernels_in_strings_count():
    one, other = (f'K = r"""{body}"""\nclass ModelNew:\n    pass\n' for body in ("a + b", "a - b"))
    assert meaning_of(one) != meaning_of(other)
