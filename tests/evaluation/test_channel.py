"""Memory that a reader cannot write, and a channel that believes nothing."""

import json
import mmap
import os
import socket
import struct
import threading

import pytest

from kernelskill.evaluation.channel import (
    MAX_REPLY,
    Channel,
    ChannelClosed,
    ChannelError,
    ChannelTimeout,
    Slot,
)


def test_a_slot_is_as_long_as_asked_and_shared():
    with Slot(10) as slot:
        slot.view()[:3] = b"abc"
        other = mmap.mmap(slot.fd, mmap.PAGESIZE, mmap.MAP_SHARED, mmap.PROT_READ)
        assert len(slot.view()) == 10
        assert other[:4] == b"abc\0"
        other.close()


def test_an_empty_slot_is_possible():
    with Slot(0) as slot:
        assert len(slot.view()) == 0


def test_a_sealed_slot_can_be_written_by_its_owner_only():
    with Slot(100) as slot:
        slot.seal_for_reader()
        slot.seal_for_reader()
        slot.view()[0] = 7
        assert os.pread(slot.fd, 1, 0) == b"\7"
        with pytest.raises(PermissionError):
            mmap.mmap(slot.fd, mmap.PAGESIZE, mmap.MAP_SHARED, mmap.PROT_READ | mmap.PROT_WRITE)
        with pytest.raises(PermissionError):
            os.pwrite(slot.fd, b"x", 0)


def test_no_one_can_pull_the_memory_away_under_the_judge():
    with Slot(3 * mmap.PAGESIZE) as slot, pytest.raises(PermissionError):
        os.ftruncate(slot.fd, 0)


def test_a_closed_slot_leaves_no_descriptor_even_while_a_view_lives():
    before = len(os.listdir("/proc/self/fd"))
    slot = Slot(64)
    view = slot.view()
    slot.close()
    slot.close()
    view[0] = 1
    view.release()
    assert len(os.listdir("/proc/self/fd")) == before


def framed(body):
    return struct.pack("<I", len(body)) + body


@pytest.fixture
def talk():
    """Ask a worker that answers with whatever `answer(request)` makes, as raw bytes."""
    opened = []

    def ask(answer, timeout_s=5.0, early=b""):
        ours, theirs = socket.socketpair()
        opened.append(theirs)
        theirs.sendall(early)

        def serve():
            size = struct.unpack("<I", theirs.recv(4, socket.MSG_WAITALL))[0]
            data = answer(json.loads(theirs.recv(size, socket.MSG_WAITALL)))
            if data is None:
                theirs.close()
            else:
                theirs.sendall(data)

        thread = threading.Thread(target=serve, daemon=True)
        channel = Channel(ours)
        if not early:
            thread.start()
        try:
            return channel.ask({"command": "ping"}, timeout_s)
        finally:
            channel.close()

    yield ask
    for end in opened:
        end.close()


def test_an_honest_answer_comes_through(talk):
    reply = talk(
        lambda request: framed(
            json.dumps({"id": request["id"], "result": {"command": request["command"]}}).encode()
        )
    )
    assert reply == {"result": {"command": "ping"}}


@pytest.mark.parametrize(
    "body",
    [
        b"not json",
        b"[1, 2]",
        b"[" * 100_000,
        b'{"id": "0123456789abcdef", "result": {}}',
        b'{"result": {}}',
        b"\xff\xfe",
    ],
)
def test_a_forged_or_broken_answer_is_refused(talk, body):
    with pytest.raises(ChannelError):
        talk(lambda _: framed(body))


@pytest.mark.parametrize("extra", [{}, {"result": 1}, {"result": {}, "error": {}}, {"verdict": {}}])
def test_an_answer_of_another_form_is_refused(talk, extra):
    with pytest.raises(ChannelError):
        talk(lambda request: framed(json.dumps({"id": request["id"], **extra}).encode()))


def test_an_answer_that_is_too_long_is_refused_before_it_is_read(talk):
    with pytest.raises(ChannelError, match="bytes"):
        talk(lambda _: struct.pack("<I", MAX_REPLY + 1))


def test_two_answers_are_one_too_many(talk):
    def twice(request):
        return 2 * framed(json.dumps({"id": request["id"], "result": {}}).encode())

    with pytest.raises(ChannelError, match="more than"):
        talk(twice)


def test_an_answer_before_the_question_is_refused(talk):
    with pytest.raises(ChannelError, match="without being asked"):
        talk(None, early=framed(b'{"id": "", "result": {}}'))


def test_half_an_answer_runs_out_of_time(talk):
    with pytest.raises(ChannelTimeout):
        talk(lambda _: struct.pack("<I", 10) + b"{", timeout_s=0.2)


def test_hanging_up_is_noticed_at_once(talk):
    with pytest.raises(ChannelClosed):
        talk(lambda _: None, timeout_s=60)
