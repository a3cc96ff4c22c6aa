"""Clock and throttling of a GPU as the driver's management library tells them; read between bursts."""

from __future__ import annotations

import ctypes
from dataclasses import dataclass

SM_CLOCK = 1
HARD = {0x8: "hardware slowdown", 0x40: "too hot (hardware)", 0x80: "power brake", 0x20: "too hot (software)"}
"""Reasons that make a time worthless; a software power cap is normal for large products and stays."""


@dataclass(frozen=True)
class Reading:
    """One look at a GPU."""

    sm_mhz: float = 0.0
    """0: not known."""
    throttled: str = ""
    """Hard reasons in words."""


class Clocks:
    """Reads one GPU.

    Args:
        uuid: "GPU-...", as nvidia-smi -L tells it.
    """

    def __init__(self, uuid: str) -> None:
        self.problem = ""
        """Why nothing can be read ("" = it can)."""
        self._handle = ctypes.c_void_p()
        try:
            self._library = ctypes.CDLL("libnvidia-ml.so.1")
            self._call("nvmlInit_v2")
            self._call("nvmlDeviceGetHandleByUUID", uuid.encode(), ctypes.byref(self._handle))
        except (OSError, AttributeError, RuntimeError) as error:
            self.problem = str(error)

    def read(self) -> Reading:
        """What it does now; empty where nothing can be read."""
        if self.problem:
            return Reading()
        mhz, reasons = ctypes.c_uint(), ctypes.c_ulonglong()
        try:
            self._call("nvmlDeviceGetClockInfo", self._handle, SM_CLOCK, ctypes.byref(mhz))
            self._call(self._reasons(), self._handle, ctypes.byref(reasons))
        except RuntimeError:
            return Reading(float(mhz.value))
        return Reading(float(mhz.value), hard_reasons(reasons.value))

    def _reasons(self) -> str:
        new = "nvmlDeviceGetCurrentClocksEventReasons"
        return new if hasattr(self._library, new) else "nvmlDeviceGetCurrentClocksThrottleReasons"

    def _call(self, name: str, *arguments: object) -> None:
        code = getattr(self._library, name)(*arguments)
        if code:
            raise RuntimeError(f"{name}: {code}")


def hard_reasons(mask: int) -> str:
    """The hard ones of a mask of reasons, in words."""
    return ", ".join(word for bit, word in HARD.items() if mask & bit)
