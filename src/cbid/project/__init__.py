"""A directory that holds one searchable set of images: fitted once, then searched, grown and measured."""

from cbid.project.answers import BitSides, Explanation, ProjectMatches, Votes
from cbid.project.errors import ProjectError, ProjectWarning
from cbid.project.project import Project
from cbid.project.table import ImageRecord

__all__ = [
    "BitSides",
    "Explanation",
    "ImageRecord",
    "Project",
    "ProjectError",
    "ProjectMatches",
    "ProjectWarning",
    "Votes",
]
