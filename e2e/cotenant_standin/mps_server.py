"""The stand-in's `nvidia-cuda-mps-server`: a process with a context of its own, which holds it for its clients.

Started by the control daemon, which writes requests for the driver to its standard input and reads the driver's
answers from its output. Ends with its daemon, and with the driver.
"""

import os
import socket
import sys
import time
from pathlib import Path

NAME = "nvidia-cuda-mps-server"
INITIALIZING = "mps_initializing"
"""The file in the stand-in's folder while which a server does not get ready."""
CONTEXT_MIB = 30
"""What the server itself holds: made up."""


def main(driver: str, gpu: str, uid: int) -> int:
    """Hold the context until the daemon or the driver is gone."""
    Path("/proc/self/comm").write_text(NAME[:15], encoding="ascii")
    if os.getuid() == 0 and uid != 0:
        os.setuid(uid)
    while (Path(driver).parent / INITIALIZING).exists():
        time.sleep(0.01)
    with socket.socket(socket.AF_UNIX) as connection:
        if connection.connect_ex(driver) != 0:
            print("none", flush=True)
            return 1
        with connection.makefile("rw") as lines:
            ready = False
            lines.write(f"open {gpu} {CONTEXT_MIB}\n")
            lines.flush()
            for answer in lines:
                print(answer, end="", flush=True)
                if not ready and answer.strip() != "ok":
                    return 1
                ready = True
                request = sys.stdin.readline()
                if not request:
                    return 0
                lines.write(request)
                lines.flush()
    return 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2], int(sys.argv[3])))
