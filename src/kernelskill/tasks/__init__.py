"""What people point at -> `Task`. Nothing of it is executed here: workers do that, confined."""

from kernelskill.tasks.load import load_task

__all__ = ["load_task"]
