"""The networks that are measured, as plain torch definitions, so that a name means the same work everywhere.

Each function takes `batch_size`, `training` and its own arguments and returns `(model, inputs)`: inputs is a dict of
tensors by the model's parameter names. A model in training returns `{"loss": scalar}`, else its output. Everything
is made on the default device: on meta to extract the graph, on the GPU to run it.
"""
