"""Run suites of this machine in this process, as the commands do."""

from kernelskill.config import Config
from kernelskill.suites import catalog
from kernelskill.suites.conductor import conduct
from kernelskill.suites.folder import SuiteFolder
from kernelskill.suites.machine import machine_of
from kernelskill.suites.pool import LocalPool, Seat
from kernelskill.suites.start import begin


def settings(folder, **changed):
    return Config(
        runs=folder / "runs", suites=folder / "suites", cache=folder / "cache", evidence=None, threads=1, **changed
    )  # fmt: skip


def started(config, suite_folder, kind="audit", run_id="run", **options):
    suite = catalog.find(config, str(suite_folder))
    return begin(config, kind, suite, machine_of(config), run_id=run_id, **options)


def worked(folder, pool=None, **options):
    """Every line, in the order that they came."""
    folder = SuiteFolder(folder.path).hold()
    try:
        conduct(folder, pool or LocalPool([Seat()]), machine={}, **options)
    finally:
        folder.release()
    return folder.results()
