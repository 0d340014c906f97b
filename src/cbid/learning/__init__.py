"""C-BID: from comparisons to bits and weights. Sections are those of docs/method.md.

| module | what | section |
|---|---|---|
| ``neighbourhoods`` | nearest hits and misses of every sample | 2 |
| ``rows`` | what the margin compares: from classes, neighbours or triplets | 2 |
| ``sides`` | a sample against a set of samples, and the distances under every bit | 2 |
| ``margins`` | the margin of every row as a linear map of the weights | 3 |
| ``losses``, ``penalties`` | what is minimised, with conjugates and dual norms | 4 |
| ``weights`` | the weights of the bits so far, to a certified duality gap | 5, 7 |
| ``graph`` | sums over pairs as a signed graph Laplacian | 6 |
| ``bits`` | the search for one new class bit | 6 |
| ``features`` | anchors and whitening: where bits are searched | 6 |
| ``patches`` | neighbours and rows of local descriptors | 8 |
| ``likeness`` | rows and bits that follow the original distances | 9 |
| ``column_generation`` | the loop: the paper's Algorithm 2 | 6, 7 |
| ``axes``, ``ridge``, ``scaling`` | principal axes, ridge regression and centring, shared with the rivals | |
"""
