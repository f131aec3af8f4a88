"""Measuring jobs on a real GPU, alone and together: one file per result, resumable, changing no setting of the GPU.

Runs where there is only Python, torch, numpy and nvidia-ml-py: imports nothing of the project but itself and the
extractor, which stands alone too. What is decided (which run is next, what a list of step times says, which kernels
are long) is in pure modules; processes, clocks, files and the driver are at the rim:

    catalog sets plan seats mechanisms             which jobs, which runs, how tenants share
    statistics kernels arrivals measured           what was measured
    measurements observations slowdowns            what it says
    campaign executor pool worker engines          carry out what is left of a plan; the tenants' processes
    mps nvml environment                           control daemon and driver
    store progress graphs command                  files, screen, extractor, command line
    networks                                       the models that are measured
    simulated                                      a device to test with
"""
