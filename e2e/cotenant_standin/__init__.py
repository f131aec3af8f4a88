"""A stand-in GPU for tests: what NVIDIA's driver, library and MPS daemon would say, told by a folder of small files.

Standard library and C alone. Everything that can be shown names itself a stand-in. Never imported by what is shipped,
and nothing here says how fast a real GPU is.
"""
