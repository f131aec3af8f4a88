"""What a placement may know beside the view: what pods asked for while they came, and how fast jobs run together."""

from dataclasses import dataclass, field

from cotenant_extender.packing import jobs
from cotenant_extender.packing import mix as mixes
from cotenant_extender.packing import situations as interned


@dataclass(frozen=True, slots=True, kw_only=True)
class Knowledge:
    """What is known.

    Attributes:
        mix: what pods asked for lately; never known in advance.
        speeds: how fast jobs run together; None where no policy has asked for it.
        situations: those of the GPUs, and what was found in them by `speeds`.
    """

    mix: mixes.Mix = field(default_factory=mixes.Mix)
    speeds: jobs.Speeds | None = None
    situations: interned.Situations = field(default_factory=interned.Situations)
