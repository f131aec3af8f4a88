"""How MPS really acts: experiments with processes that are limited, killed and made to fault, each one resumable run.

A run says what is documented and what was seen. The tenants here run no model: they call the driver themselves, so
that a process is up within a second and an error is the driver's own. No setting of the GPU is changed.

    questions                     what is asked, what is documented, with the source; pure
    subject driver libcuda        a tenant's process, and the driver it calls
    bench findings                daemons, tenants, and what they answered
    limits endings surroundings management     the experiments
    laboratory                    which one is conducted, and what of it cannot be done here
    report                        tables of documented, stand-ins and real; pure
"""
