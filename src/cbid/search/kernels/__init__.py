"""The search kernels: exact nearest codes under weighted Hamming distance, compiled by numba.

`cbid.search.scan` and `cbid.search.partition` are the interface. This page explains how a scan works, in order.

**Blocks.** Codes are stored transposed in blocks of 32 (`cbid.search.blocks`). One SIMD register holds the same byte
of 32 codes (AVX2) or of 64 (AVX-512 with VBMI). `compile` wraps numba and detects the processor; `vectors` defines
register types for numba and the operations that the filters are made of.

**Tables** (`tables`). For each query, a table lists the cost of every value of 4 bits (AVX2) or 6 bits (VBMI) of a
stored code. Costs are rounded down to whole numbers, so that a lookup is one instruction and a sum is a byte.
Rounding down makes the sum a lower bound: a code whose sum reaches the limit cannot be nearer than the current
threshold.

**Filters** (`filters`). A filter looks up all fields of a few blocks, adds the costs with saturation and reports the
codes whose sum is below the limit. It processes one query, or a group of queries whose sums stay in registers.
Columns with high cost come first, and blocks are skipped as soon as no code in them can pass. Without AVX2 a
portable filter does the same with float32 tables over whole bytes.

**Shared lookups** (`shared`). If many queries have the same weights, a stored nibble has only sixteen possible
costs, whichever the query. They are looked up once for all queries and kept in the first-level cache; a query then
loads a cost instead of looking it up. With AVX2, for up to 256 bits.

**Candidates** (`candidates`). The codes are visited in chunks that fit in the cache. The codes that pass the filter
are the candidates of a query; each gets its exact distance (float64 sums, rounded once to float32). Those nearer
than the threshold are the hits. `find_hits` is the one loop that all scans of the index share. Removed and filtered-
out codes are skipped here, or left out of a copy of the chunk if there are many queries.

**Plans** (`bounds`). One byte per sum is coarse for long codes: too many candidates pass. A code can be divided into
2**level parts with a sum each, whose average is a sharper bound but takes longer. A plan chooses the level for a
group of queries from the weights, and revises it by the number of false candidates in the last chunk.

**Scans** (`scan`). `scan_topk` keeps a heap of the k best per query, whose worst distance is the threshold; a sample
of the codes gives a first guess of it. `scan_within` collects all codes below a fixed threshold. `scan_spans` serves
IVF: each query scans its own spans of positions. `partition` finds the nearest code of each part of a partition, by
scans with tables that all queries share or, up to 32 bits, by buckets. The masks of codes to skip are in `filters`.

**Second look** (`scan`). `second_look` computes the distances of candidates by the vectors that `VectorIndex` keeps;
`nearest_columns` ranks them.

**Buckets** (`buckets`). Without a scan: tables find the codes that agree with a query in some bits, or nearly, until
no other code can be near enough. `cbid.search.buckets` builds the tables and chooses between them and a scan.
"""
