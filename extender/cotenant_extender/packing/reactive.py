"""Reactive: a whole GPU for what nobody has measured, then the first GPU that fits what was measured.

The reactive baseline of Horus (Yeung et al., HotCloud 2020, section 6): each job is profiled in isolation for one
minute before it may be co-located. That an unmeasured prediction costs a whole GPU is said in `cotenant_api.booking`;
the operator gives a DLJob a whole GPU until it is measured, then packs it by that. Here is only which GPU.
"""

from cotenant_extender.packing import first_fit

score = first_fit.score
