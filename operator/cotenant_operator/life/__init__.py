"""The decisions of a DLJob's life, from its creation to its end. Pure: observed state and the time in, a plan out."""
