"""What a placement may know beside the view: learned while pods come, never in advance."""

from dataclasses import dataclass, field

from cotenant_extender.packing import mix as mixes


@dataclass(frozen=True, slots=True, kw_only=True)
class Knowledge:
    """What has been learned.

    Attributes:
        mix: what pods asked for lately.
    """

    mix: mixes.Mix = field(default_factory=mixes.Mix)
