"""What a placement may know beside the view: what pods asked for while they came, and how fast jobs run together."""

from dataclasses import dataclass, field

from cotenant_extender.packing import fragments as learned_fragments
from cotenant_extender.packing import jobs
from cotenant_extender.packing import mix as mixes
from cotenant_extender.packing import prices as dual
from cotenant_extender.packing import situations as interned
from cotenant_extender.packing import worths as kept


@dataclass(frozen=True, slots=True, kw_only=True)
class Knowledge:
    """What is known.

    Attributes:
        mix: what pods asked for lately; never known in advance.
        speeds: how fast jobs run together; None where no policy has asked for it.
        fragments: what typical demands of the mix can use.
        prices: dual prices of the mix.
        worths: of every node, by these prices.
        situations: those of the GPUs, and what was found in them by `speeds`.
    """

    mix: mixes.Mix = field(default_factory=mixes.Mix)
    speeds: jobs.Speeds | None = None
    fragments: learned_fragments.Fragments = field(default_factory=learned_fragments.Fragments)
    prices: dual.Prices = field(default_factory=dual.Prices)
    situations: interned.Situations = field(default_factory=interned.Situations)
    worths: kept.Memory = field(default_factory=kept.Memory)
