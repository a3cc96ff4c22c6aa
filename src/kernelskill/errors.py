"""Everything that can go wrong on our side.

    KernelSkillError
      ConfigError       a setting, flag or file of settings is not usable
      TaskError         the task cannot be read, or cannot prove anything
      CaptureError      the reference cannot be turned into a graph
      ProgramError      an edit or a printer was asked for something impossible
      WorkerError       a worker of ours could not be started or spoken to
      SandboxError      the sandbox asked for is not available on this machine
      SkillError        a skill folder breaks a rule (file, field, value, rule)
      StoreError        the evidence store is unreadable or newer than this program
      ModelError        a language model cannot be asked: unknown, no key, unreachable, no usable answer
        BudgetError     asking it once more could pass a limit
      RunError          a run folder is missing, unreadable or belongs to another task
      MissingExtraError an optional package is needed; the message names the pip extra

A candidate's failure is never an exception: it is `Evaluation.status`.
"""

from __future__ import annotations


class KernelSkillError(Exception):
    """Base of all our errors. The message says what, where, and what to do."""


class ConfigError(KernelSkillError):
    """A setting, flag or settings file is not usable."""


class TaskError(KernelSkillError):
    """The task cannot be read, or cannot prove anything. One clear line."""


class CaptureError(KernelSkillError):
    """The reference cannot be turned into a graph."""


class ProgramError(KernelSkillError):
    """An edit or a printer was asked for something impossible."""


class WorkerError(KernelSkillError):
    """A worker of ours could not be started or spoken to."""


class SandboxError(KernelSkillError):
    """The sandbox level asked for is not available on this machine."""


class SkillError(KernelSkillError):
    """A skill folder breaks a rule; the message names file, field, value and rule."""


class StoreError(KernelSkillError):
    """The evidence store is unreadable, or written by a newer version."""


class ModelError(KernelSkillError):
    """A language model cannot be asked, or gives no usable answer; the message names it and what to do."""


class BudgetError(ModelError):
    """One more call could pass a limit on dollars, tokens, calls or seconds; the message names the limit."""


class RunError(KernelSkillError):
    """A run folder is missing, unreadable, or belongs to another task or other settings."""


class MissingExtraError(KernelSkillError):
    """An optional package is needed; the message names the pip extra that brings it."""
