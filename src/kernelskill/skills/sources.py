"""Where skills come from: the bundled stock, installed packages, and folders that the user names.

A package offers skills by an entry point of the group `kernelskill.skills` whose value is a module (its folder holds
the skill folders) or `module:name` of a path to such a folder:

    [project.entry-points."kernelskill.skills"]
    mine = "my_package.skills"
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from types import ModuleType

from kernelskill.errors import SkillError

BUNDLED = Path(__file__).parent / "library"
"""Skills that come with the program."""
GROUP = "kernelskill.skills"


def folders(extra: Sequence[Path] = ()) -> tuple[Path, ...]:
    """All skill folders in order of reading: bundled, installed, named by the user.

    Raises:
        SkillError: an entry point gives no folder.
    """
    return (BUNDLED, *installed(), *extra)


def installed(points: Iterable[EntryPoint] | None = None) -> tuple[Path, ...]:
    """Skill folders of installed packages, by name of their entry points.

    Raises:
        SkillError: an entry point cannot be loaded, or gives no folder.
    """
    found = entry_points(group=GROUP) if points is None else points
    return tuple(_folder(point) for point in sorted(found, key=lambda point: point.name))


def _folder(point: EntryPoint) -> Path:
    where = f"entry point {point.name} = {point.value!r} of group {GROUP}"
    try:
        value = point.load()
    except Exception as error:  # a package of somebody else; the message says which and how
        raise SkillError(f"{where}: cannot be loaded: {type(error).__name__}: {error}") from error
    if isinstance(value, ModuleType):
        value = value.__path__[0] if hasattr(value, "__path__") else Path(str(value.__file__)).parent
    if not isinstance(value, str | Path) or not Path(value).is_dir():
        raise SkillError(f"{where}: must be a package or the path of a folder, it is {value!r}")
    return Path(value)
