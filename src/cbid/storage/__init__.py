"""Files: atomic writes, tensor and model files, ``.npy`` headers, packed codes, digests and locks."""
