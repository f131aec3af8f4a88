"""Exclusive: a whole GPU for every pod, the first that is empty; the slots of a cluster that shares nothing.

This is what Kubernetes gives by default, and the slot-based baseline of Horus (Yeung et al., HotCloud 2020, section 6):
no two jobs on one GPU. That a pod costs a whole GPU is said in `cotenant_api.booking`; here is only which one.
"""

from cotenant_extender.packing import first_fit

score = first_fit.score
