#!/usr/bin/env python3
"""Stands in for the Python of the engine ray, and answers badly: fake_bridge.py BRIDGE SOCKET PID, as BERTH_FAKE_BRIDGE says."""
import os
import socket
import struct
import sys
import time

MODE = os.environ["BERTH_FAKE_BRIDGE"]
START, PROFILE, CALL, PUT, WAIT, FETCH, STOP = 2, 3, 4, 5, 6, 7, 18
if MODE == "ends":
    sys.exit(3)
LINK = socket.socket(fileno=int(sys.argv[2]))
with open(os.environ["BERTH_FAKE_PID"], "w") as told:
    told.write(str(os.getpid()))


def answer(request, status=0, number=0, real=0.0, text=b"", settled=()):
    body = struct.pack("<iIQdI", status, 0, number, real, len(text)) + text + struct.pack("<I", len(settled)) + b"".join(settled)
    return struct.pack("<IIQ", 12 + len(body), 1, request) + body


def settled(id, state, data, size=None):
    return struct.pack("<QIiIQI", id, state, 0, 0, len(data) if size is None else size, len(data)) + data


def waited(frame, request):
    """Answers to a wait for one result, by mode."""
    (id,) = struct.unpack_from("<Q", frame, 36)
    if MODE == "damaged value":
        return answer(request, settled=[settled(id, 1, b"\xff" * 64)])
    if MODE == "unknown state":
        return answer(request, settled=[settled(id, 77, b"")])
    if MODE in ("large of nothing", "larger than its file", "no number"):
        return answer(request, settled=[settled(id, 2, b"", size=1 << 20)])
    if MODE == "too many settled":
        return answer(request)[:-4] + struct.pack("<I", 1 << 31)
    if MODE == "another request":
        return answer(request + 1000) + answer(request, settled=[settled(id, 1, struct.pack("<qB7xq", 1, 1, 5))])
    return answer(request)


def reply(frame):
    kind, request = struct.unpack_from("<IQ", frame, 4)
    if MODE == "silent":
        return b""
    if MODE == "garbage":
        return b"\xfe" * 100_000
    if MODE == "ends in a frame":
        LINK.sendall(answer(request)[:11])
        os._exit(0)
    if MODE == "no answer kind":
        return struct.pack("<IIQ", 12, 5, request)
    if MODE == "text too long":
        return struct.pack("<IIQ", 40, 1, request) + struct.pack("<iIQdI", 0, 0, 0, 0.0, 1 << 30)
    if kind == CALL and MODE == "ends later":
        os._exit(0)
    if kind == WAIT:
        return waited(frame, request)
    if kind == FETCH and MODE == "larger than its file":
        file = os.memfd_create("short")
        os.ftruncate(file, 4096)
        return answer(request, number=file, real=float(1 << 20))
    if kind == FETCH and MODE == "no number":
        return answer(request, real=float("nan"))
    return answer(request) if request else b""


got = bytearray()
while True:
    piece = LINK.recv(1 << 16)
    if not piece:
        break
    got += piece
    while len(got) >= 4 and len(got) >= 4 + struct.unpack_from("<I", got)[0]:
        size = 4 + struct.unpack_from("<I", got)[0]
        frame, got = bytes(got[:size]), got[size:]
        said = reply(frame)
        for at in range(0, len(said), 7 if MODE == "another request" else 1 << 20):  # in small pieces, too
            LINK.sendall(said[at:at + (7 if MODE == "another request" else 1 << 20)])
        if struct.unpack_from("<I", frame, 4)[0] == STOP:
            time.sleep(0.01)
            sys.exit(0)
