"""project.json: what a project consists of. Replacing it is what commits a fit."""

import json
import os
import secrets
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any

from cbid.data.names import printable
from cbid.project.errors import ProjectError
from cbid.storage.atomic import whole_file

__all__ = ["IMAGES", "LEARNING", "LOCK", "MANIFEST", "STARTED", "VECTORS", "Manifest", "is_ours", "new_name"]

MANIFEST = "project.json"
IMAGES = "images.sqlite"
VECTORS = "vectors.f32"
LEARNING = "learning.safetensors"  # a coder that is not learned to its end
STARTED = "started.json"  # of a project whose first fit has not ended: what its vectors are
LOCK = "lock"
FORMAT, VERSION = "cbid-project", 1


@dataclass(frozen=True)
class Manifest:
    """The committed state: settings, and the files that hold the rest."""

    n_features: int
    coder: str  # file names, new ones with each fit
    index: str
    evaluation: str
    descriptor: dict[str, Any] | None
    settings: dict[str, Any]
    source: str
    fit: dict[str, Any] = field(default_factory=dict)  # what the last fit met: counts, seconds, failures

    @classmethod
    def read(cls, directory: Path) -> "Manifest":
        path = directory / MANIFEST
        if not directory.exists():
            raise FileNotFoundError(f"{printable(directory)} is not there; cbid fit makes a project")
        if not path.is_file():
            if (directory / STARTED).is_file():
                raise ProjectError(
                    f"{printable(directory)} is a project whose first fit has not ended; run the same cbid fit again"
                )
            raise ProjectError(f"{printable(directory)} is no project: it has no {MANIFEST}")
        try:
            saved = json.loads(path.read_bytes())
        except (ValueError, RecursionError) as error:
            raise ProjectError(f"{printable(path)} is damaged: it is not JSON") from error
        if not isinstance(saved, dict) or saved.get("format") != FORMAT:
            raise ProjectError(f"{printable(path)} is not that of a cbid project")
        if saved.get("version") != VERSION:
            raise ProjectError(
                f"{printable(path)} has version {saved.get('version')!r} of the format; this cbid reads {VERSION}"
            )
        kinds = {"n_features": int, "coder": str, "index": str, "evaluation": str, "settings": dict, "fit": dict}
        wrong = [name for name, kind in kinds.items() if not isinstance(saved.get(name), kind)]
        wrong += [
            name
            for name in ("coder", "index", "evaluation")
            if os.path.basename(str(saved.get(name))) != saved.get(name)
        ]
        if wrong or not isinstance(saved.get("descriptor"), dict | None) or saved["n_features"] < 1:
            raise ProjectError(f"{printable(path)} is damaged: {', '.join(wrong) or 'descriptor'} is not as written")
        return cls(**{entry.name: saved.get(entry.name, "") for entry in fields(cls)})

    def write(self, directory: Path) -> None:
        content = {"format": FORMAT, "version": VERSION, **asdict(self)}
        with whole_file(directory / MANIFEST) as temporary:
            temporary.write_text(json.dumps(content, indent=1, sort_keys=True) + "\n")


def new_name(kind: str, suffix: str = "") -> str:
    """A name that no other fit has used."""
    return f"{kind}-{secrets.token_hex(6)}{suffix}"


def is_ours(name: str) -> bool:
    """Whether a file of this name may lie in a project."""
    fixed = (MANIFEST, IMAGES, VECTORS, LEARNING, STARTED, LOCK)
    begun = name.startswith(".") and name.endswith(".tmp")
    return begun or name in fixed or name.startswith((f"{IMAGES}-", "coder-", "index-", "evaluation-"))
