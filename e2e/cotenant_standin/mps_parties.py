"""Who a stand-in's MPS control daemon has to do with: its server, and that one's clients."""

import asyncio
from dataclasses import dataclass, field

from cotenant_standin.mps_limits import Limits


@dataclass(eq=False)
class Client:
    """One connected process."""

    pid: int
    uid: int
    writer: asyncio.StreamWriter
    asked: Limits
    granted: Limits = field(default_factory=Limits)
    busy: bool = False
    terminated: bool = False
    """It computes no more, and is listed as long as its process lives."""
    number: int = 0
    """In `ps`: counts the clients of a server from 1. Modelled: no number is given twice."""

    def tell(self, word: str) -> None:
        """Send one line, whether anybody reads it or not."""
        self.writer.write(f"{word}\n".encode())


@dataclass(eq=False)
class Server:
    """One server process; `user`: whose clients it takes; `affected`: clients of a fault that have not left.

    `connected`: how many clients it has had.
    """

    process: asyncio.subprocess.Process
    user: int
    limits: Limits
    status: str = "INITIALIZING"
    clients: list[Client] = field(default_factory=list)
    affected: list[Client] = field(default_factory=list)
    connected: int = 0
    closing: bool = False
    asking: asyncio.Lock = field(default_factory=asyncio.Lock)
    ready: asyncio.Event = field(default_factory=asyncio.Event)

    @property
    def pid(self) -> int:
        """Of the process."""
        return self.process.pid

    @property
    def busy(self) -> bool:
        """Whether it has not initialized yet, so that its daemon asks it nothing."""
        return not self.ready.is_set()
