"""Who may have part in a GPU, and who has it to himself; other judges are processes of their own here, as in use."""

import subprocess
import sys
import time
from contextlib import ExitStack, contextmanager

import pytest

from kernelskill.evaluation.cuda import lease as leases
from kernelskill.evaluation.cuda.lease import Lease

OTHER = """
import sys
from pathlib import Path
from kernelskill.evaluation.cuda import lease
lease.folder = lambda: Path(sys.argv[1])
with getattr(lease.Lease("GPU-1", lambda words: print("waits", flush=True)), sys.argv[2])():
    print("inside", flush=True)
    sys.stdin.read(1)
"""


@pytest.fixture(autouse=True)
def here(tmp_path, monkeypatch):
    monkeypatch.setattr(leases, "folder", lambda: tmp_path)
    return tmp_path


@contextmanager
def another(here, way):
    """Another judge that enters in that way, and what it says."""
    with subprocess.Popen(
        [sys.executable, "-c", OTHER, str(here), way], stdin=-1, stdout=-1, text=True
    ) as other:
        yield other
        other.stdin.close()
        other.wait()


def said(other):
    return other.stdout.readline().strip()


def test_judges_compute_side_by_side(here):
    with Lease("GPU-1").shared(), another(here, "shared") as other:
        assert said(other) == "inside"


@pytest.mark.parametrize(("mine", "theirs"), [("alone", "shared"), ("shared", "alone"), ("alone", "alone")])
def test_whoever_times_is_alone(here, mine, theirs):
    lease = Lease("GPU-1")
    with ExitStack() as theirs_to_the_end:
        with getattr(lease, mine)():
            other = theirs_to_the_end.enter_context(another(here, theirs))
            assert said(other) == "waits"
        assert said(other) == "inside"


def test_who_waits_to_be_alone_is_not_passed(here):
    lease = Lease("GPU-1")
    with lease.shared(), another(here, "alone") as other:
        assert said(other) == "waits"
        with another(here, "shared") as third:
            assert said(third) == "waits", "it stands in line behind the one who waits to be alone"
            with lease.lent():
                assert said(other) == "inside"
                other.stdin.close()
                assert said(third) == "inside"


def test_giving_way_lets_the_one_who_waits_in(here):
    lease = Lease("GPU-1")
    with lease.shared():
        lease.give_way()
        assert lease.hold == "shared"
        with another(here, "alone") as other:
            assert said(other) == "waits"
            other.stdin.close()  # it leaves as soon as it has been inside
            lease.give_way()
            assert said(other) == "inside"
        assert lease.hold == "shared"


def test_what_is_held_may_be_entered_again(here):
    words = []
    lease = Lease("GPU-1", words.append)
    with lease.shared(), lease.shared(), lease.alone(), lease.shared():
        assert lease.hold == "alone", "who is alone stays so"
        with another(here, "shared") as other:
            assert said(other) == "waits"
            with lease.lent():
                assert lease.hold == "nothing"
                assert said(other) == "inside"
                other.stdin.close()
                other.wait()
    assert lease.hold == "nothing"
    assert not words, "nobody was in the way"


def test_what_is_held_is_counted_by_how(here):
    before = leases.HELD_S.copy()
    lease = Lease("GPU-1")
    with lease.shared():
        time.sleep(0.02)
        with lease.alone():
            time.sleep(0.01)
    spent = {how: leases.HELD_S[how] - before[how] for how in ("shared", "alone", "waited")}
    assert spent["shared"] >= 0.02
    assert spent["alone"] >= 0.01
    assert spent["waited"] >= 0


def test_who_holds_nothing_lends_nothing(here):
    lease = Lease("GPU-1")
    with lease.lent():
        assert lease.hold == "nothing"
    lease.give_way()
    assert lease.hold == "nothing"


def test_what_is_thrown_inside_leaves_nothing_locked(here):
    lease = Lease("GPU-1")
    with pytest.raises(ValueError, match="inside"), lease.shared(), lease.alone():
        raise ValueError("inside")
    with another(here, "alone") as other:
        assert said(other) == "inside"
