"""A project is a directory with one searchable set of images: fitted once, then searched, extended and measured."""

from cbid.project.files import ProjectError, ProjectWarning
from cbid.project.project import Project
from cbid.project.searching import BitSides, Examples, Explanation, ProjectMatches, Votes
from cbid.project.table import ImageRecord

__all__ = [
    "BitSides",
    "Examples",
    "Explanation",
    "ImageRecord",
    "Project",
    "ProjectError",
    "ProjectMatches",
    "ProjectWarning",
    "Votes",
]
