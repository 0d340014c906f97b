"""``cbid fit``: turn a folder of images into a project that can be searched."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from cbid.commands.options import (
    MAX_PIXELS,
    PROJECT_SUFFIX,
    JobsOption,
    JsonOption,
    LabelDepthOption,
    MaxPixelsOption,
    PathLabelOption,
    QuietOption,
    accuracy_table,
    choice,
    command_line,
    complete,
    echo,
    echo_json,
    one_of,
    resumable,
)

if TYPE_CHECKING:
    from cbid.project import Project


def _check_descriptor(descriptor: str | None) -> str | None:
    from cbid.project.models import DESCRIPTORS, ONNX

    if descriptor is None or (descriptor.startswith(ONNX) and descriptor != ONNX):
        return descriptor
    return one_of(descriptor, [*DESCRIPTORS, f"{ONNX}FILE"])


KERNELS = ("auto", "linear", "rbf", "none")
WEAK = 0.6  # accuracy on held-out images below which the program says what may help


def fit(
    source: Annotated[
        Path,
        typer.Argument(
            metavar="SRC",
            help="A folder of class folders, a list file (path, label), or a .npy, .npz or parquet file.",
        ),
    ],
    descriptor: Annotated[
        str | None,
        typer.Option(
            "--descriptor",
            "-d",
            callback=_check_descriptor,
            autocompletion=complete("cbid.project.models:DESCRIPTORS", "onnx:"),
            help="efficientnet, hog, gist, phog, centrist, pixels, onnx:FILE or onnx:FILE#LAYER (default: that of "
            "the project; efficientnet if the extra 'deep' is installed; else hog).",
        ),
    ] = None,
    n_bits: Annotated[int, typer.Option("--n-bits", "-b", min=1, help="Length of the codes in bits.")] = 128,
    out: Annotated[
        Path | None,
        typer.Option("--out", "-o", help=f"The project to create or update (default: SRC{PROJECT_SUFFIX})."),
    ] = None,
    coder: Annotated[
        str | None,
        choice("cbid.project.models:CODERS", help="A coder of cbid.coders (default: CBID, or ITQ without labels)."),
    ] = None,
    kernel: Annotated[
        str | None,
        choice(
            "cbid.commands.fit:KERNELS",
            help="Form of CBID: auto, linear (or none) or rbf (default: auto, chosen on the training images).",
        ),
    ] = None,
    held_out: Annotated[
        float, typer.Option(min=0.0, max=0.9, help="Share of each class to hold out for evaluation.")
    ] = 0.2,
    random_state: Annotated[
        int, typer.Option("--random-state", min=0, help="Seed; the same seed gives the same codes.")
    ] = 0,
    vectors: Annotated[str | None, typer.Option(help="Parquet: the column of vectors.")] = None,
    labels: Annotated[str | None, typer.Option(help="Parquet: the column of labels.")] = None,
    ids: Annotated[str | None, typer.Option(help="Parquet: the column of ids.")] = None,
    label: PathLabelOption = None,
    label_depth: LabelDepthOption = 1,
    max_pixels: MaxPixelsOption = MAX_PIXELS,
    tree: Annotated[
        bool,
        typer.Option("--tree", help="Nested folders (or labels such as animal/dog) are a tree, which CBID learns."),
    ] = False,
    n_jobs: JobsOption = None,
    as_json: JsonOption = False,
    quiet: QuietOption = False,
) -> None:
    """Learn codes for images, index them, and measure their accuracy on held-out images.

    Run it again after adding or deleting images: it reads only the new ones. You can interrupt it at any time; the
    same command resumes.

    Example: cbid fit photos/ --n-bits 128 --out photos.cbid
    """
    from cbid.coders import CBID
    from cbid.data import open_source
    from cbid.project import Project
    from cbid.project.fitting import OWN_PIXELS, unfinished

    chosen: Any = coder
    if kernel is not None:
        if coder not in (None, "CBID"):
            raise typer.BadParameter(f"only CBID has a kernel, not {coder}", param_hint="'--kernel'")
        chosen = CBID(
            n_bits=n_bits, kernel="linear" if kernel == "none" else kernel, random_state=random_state, n_jobs=n_jobs
        )
    columns: dict[str, Any] = {
        name: value for name, value in (("vectors", vectors), ("labels", labels), ("ids", ids)) if value
    }
    if label is not None or label_depth != 1 or max_pixels != OWN_PIXELS:
        columns |= {"label": label, "label_depth": label_depth, "max_pixels": max_pixels}
    folder = out if out is not None else default_project(source)
    with (
        resumable(lambda: unfinished(folder)),
        Project.fit(
            folder,
            open_source(source, tree=tree, on_error="skip", **columns) if columns else source,
            descriptor=descriptor,
            n_bits=n_bits,
            coder=chosen,
            held_out=held_out,
            n_jobs=n_jobs,
            seed=random_state,
            progress=not quiet and not as_json,
            tree="/" if tree else None,
        ) as project,
    ):
        if as_json:
            echo_json(summary(project))
        elif not quiet:
            echo_fit(project, given=descriptor is not None)
            echo()
            commands = {
                command_line("search", "IMAGE", "-p", project.path): "finds the most similar images",
                command_line("report", "-p", project.path): "writes these results as a web page",
                command_line("serve", project.path): "starts a search page",
            }
            width = max(map(len, commands))
            for command, what in commands.items():
                echo(f"{command:{width}}    {what}")


def default_project(source: Path) -> Path:
    """Name the project of a source: photos.cbid for the folder photos, v1.2.cbid for v1.2, list.cbid for list.txt."""
    name = source.resolve()
    return Path(f"{name.name if name.is_dir() else name.stem}{PROJECT_SUFFIX}")


def summary(project: "Project") -> dict[str, Any]:
    """Return what ``cbid fit --json`` prints."""
    return {
        "project": str(project.path),
        "up_to_date": project.was_up_to_date,
        "images": len(project),
        "classes": project.classes,
        "n_bits": project.n_bits,
        "lengths": project.lengths,
        "settings": project.settings,
        "fit": project.last_fit,
        "evaluation": project.evaluation,
    }


def _why(project: "Project") -> str:
    """Return which descriptor was chosen, why, and what another one takes."""
    from cbid.project.models import default_descriptor, descriptor_name

    name = descriptor_name(project.descriptor)
    if name != default_descriptor():
        return f"descriptor: {name}, as in earlier fits"
    if name == "efficientnet":
        return (
            "descriptor: efficientnet, a network trained on ImageNet, because the extra 'deep' is installed; "
            "hog is faster and usually less accurate: --descriptor hog and another --out"
        )
    return f"descriptor: hog, because the extra 'deep' is not installed; {_how_to_use_a_network()}"


def _how_to_use_a_network() -> str:
    from cbid.descriptors import EfficientNet
    from cbid.extras import how_to_install

    first = "" if EfficientNet.is_installed() else f"{how_to_install('deep')}, then "
    return f"efficientnet is usually more accurate: {first}--descriptor efficientnet and another --out"


def _hint(project: "Project") -> str | None:
    """Return what may help if the codes are weak."""
    from cbid.descriptors.deep import NetworkDescriptor

    measured = project.evaluation["codes"][-1]["weighted"]["accuracy"]
    if measured is None or measured >= WEAK or project.descriptor is None:
        return None
    if isinstance(project.descriptor, NetworkDescriptor):
        help = "more images per class, or --descriptor onnx:FILE with a network that was trained on such images"
    else:
        help = _how_to_use_a_network()
    return f"{measured:.0%} is weak: {help}"


def echo_fit(project: "Project", *, given: bool) -> None:
    """Print the size of a project, its descriptor (``given``: the user has chosen it), times and accuracy."""
    last = project.last_fit
    images = last["images"]
    parts = f"{images['train']:,} for training, {images['held-out']:,} held out"
    if images["added"]:
        parts += f", {images['added']:,} indexed only"
    echo(f"{project.path}: {len(project):,} images, {len(project.classes)} classes ({parts})")
    if project.was_up_to_date:
        echo(f"up to date: nothing has changed since the last fit, {last['ended']}")
        return
    seconds = ", ".join(f"{name} {value:.1f} s" for name, value in last["seconds"].items())
    echo(f"{last['read']:,} images read; {seconds}")
    if not given and project.descriptor is not None:
        echo(_why(project))
    echo()
    echo(accuracy_table(project.evaluation))
    hint = _hint(project)
    if hint is not None:
        echo()
        echo(hint)
