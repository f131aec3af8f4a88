"""kubelet's side of the agent: the device-plugin service, registration, PodResources and the checkpoint.

Translates and nothing more: which pod may have which GPU is decided in `binding`.
"""
