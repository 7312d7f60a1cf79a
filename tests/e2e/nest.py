"""A process that has loaded Backstay and waits to be copied: a command that begins as its copy loads nothing again.

It is run as a program, with the number of its end of a socket. `tests/e2e/warm.py` is the other end.
"""

import gc
import importlib
import json
import os
import signal
import socket
import struct
import sys
from contextlib import suppress

from backstay.cli import main

LOADED = ("backstay.cli.prompt", "backstay.providers.scripted", "backstay.stores.sqlite.store")
"""What most commands of the tests load, with all that they load in turn."""
STREAMS = 3
"""Standard input, output and error; the pipe on which the end is told comes after them."""


def wait_for_work(ear: socket.socket) -> None:
    """Serve until there is nobody left to serve. Return in a process that is to become a command."""
    while True:
        head, descriptors, _, _ = socket.recv_fds(ear, 8, STREAMS + 1)
        with suppress(ChildProcessError):
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        if not head:
            os._exit(0)
        (size,) = struct.unpack("!Q", head)
        body = b""
        while len(body) < size:
            body += ear.recv(size - len(body))
        if not os.fork():
            become(ear, json.loads(body), descriptors)
            return
        for each in descriptors:
            os.close(each)


def become(ear: socket.socket, order: dict[str, object], descriptors: list[int]) -> None:
    """Tell the end of the command from outside of it; return inside of it."""
    ear.close()
    *streams, teller = descriptors
    child = os.fork()
    if child:
        for each in streams:
            os.close(each)
        os.write(teller, f"{child}\n".encode())
        _, status = os.waitpid(child, 0)
        os.write(teller, f"{os.waitstatus_to_exitcode(status)}\n".encode())
        os._exit(0)
    os.close(teller)
    for number, each in enumerate(streams):
        os.dup2(each, number)
        os.close(each)
    for heard in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(heard, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    arguments, environment = order["arguments"], order["environment"]
    assert isinstance(arguments, list)
    assert isinstance(environment, dict)
    os.environ.clear()
    os.environ.update(environment)
    os.chdir(str(order["folder"]))
    sys.argv[1:] = arguments


if __name__ == "__main__":
    sys.path[0] = ""  # as `python -m` has it
    for name in LOADED:
        importlib.import_module(name)
    gc.freeze()  # what is never collected is never written to, and stays in common
    wait_for_work(socket.socket(fileno=int(sys.argv[1])))
    main()
