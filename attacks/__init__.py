"""Attacks that cbid withstands, as scripts; see README.md."""
