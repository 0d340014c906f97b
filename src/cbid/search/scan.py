"""Exact top-k and range scans over blocked codes: the interface of the kernels.

Codes are stored transposed in blocks of 32: ``blocks[b, j, i]`` is byte j of code 32 b + i, so that one SIMD
register holds the same byte of 32 codes.
"""
