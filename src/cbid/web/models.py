"""Bodies of requests and responses. The OpenAPI document is generated from these classes."""

from typing import Annotated, Any, Literal

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    FailFast,
    Field,
    StringConstraints,
    model_validator,
)

from cbid.project import ImageRecord
from cbid.project.inspecting import MAX_GRID

MAX_MATCHES = 1000
MAX_SKIPPED = 10_000
MAX_EXAMPLES = 100
MAX_ID = 2**63 - 1
_MAX_BITS = 2**16
_MAX_FIELDS = 20
_MAX_VALUE = 1e15  # sums of squared differences then stay far below the largest float32

How = Literal["weighted", "plain", "raw"]
ImageId = Annotated[int, Field(ge=0, le=MAX_ID)]
Bits = Annotated[
    int, Field(ge=1, le=_MAX_BITS, description="Use only the first bits of each code (default: all bits).")
]


Unknown = Annotated[
    float,
    Field(
        ge=0,
        lt=1,
        description="Answer unknown for images that are farther from the stored ones than this share of the held-out "
        "images, such as 0.05.",
    ),
]
Likeness = Annotated[
    float,
    Field(ge=0, le=1, description='Weights of the bits between "same class" (0) and "looks alike" (1).'),
]

Grid = Annotated[
    int,
    Field(ge=1, le=MAX_GRID, description="Parts along each side of a picture (default: as many as time allows)."),
]


def _check_printable(text: str) -> str:
    if not text.isprintable():
        raise ValueError("expected printable characters only")
    return text


def _escape(text: object) -> object:
    """Escape what is not a character: names of files may hold any bytes."""
    return text.encode(errors="backslashreplace").decode() if isinstance(text, str) else text


Text = Annotated[str, BeforeValidator(_escape)]
Label = Annotated[str, StringConstraints(min_length=1, max_length=200), AfterValidator(_check_printable)]


# Requests


class _RequestBody(BaseModel):
    model_config = ConfigDict(extra="forbid", allow_inf_nan=False)

    @model_validator(mode="before")
    @classmethod
    def _limit_fields(cls, data: Any) -> Any:
        # Each unknown field produces an error. A million of them would block the service.
        if isinstance(data, dict) and len(data) > _MAX_FIELDS:
            raise ValueError(f"{len(data)} fields: expected at most {_MAX_FIELDS}")
        return data


class ById(_RequestBody):
    """A stored image."""

    id: ImageId


class ByVector(_RequestBody):
    """A raw vector, as the descriptor of the project computes it."""

    vector: Annotated[list[Annotated[float, Field(ge=-_MAX_VALUE, le=_MAX_VALUE)]], FailFast()] = Field(
        min_length=1, max_length=2**17
    )


class ByCode(_RequestBody):
    """A packed code in hexadecimal, two digits per byte. Bit 0 is the highest bit of the first byte."""

    code: str = Field(pattern="^([0-9a-fA-F]{2})+$", max_length=_MAX_BITS // 4)


SearchQuery = ById | ByVector | ByCode


class SearchOptions(_RequestBody):
    """Options of a search."""

    k: int = Field(default=10, ge=1, le=MAX_MATCHES, description="Number of images to return.")
    n_bits: Bits | None = None
    how: How = Field(
        default="weighted",
        description="Distance: weighted or plain Hamming, or raw for the Euclidean distance of vectors.",
    )
    likeness: Likeness | None = None
    first: int = Field(default=0, ge=0, le=MAX_SKIPPED, description="Number of nearest images to skip.")
    label: Label | None = Field(default=None, description="Return only images of this class.")
    labels: Annotated[list[Label], FailFast()] = Field(
        default=[], max_length=MAX_MATCHES, description="Return only images of these classes (default: of all)."
    )
    match: Literal["any", "all", "branch"] = Field(
        default="any",
        description="Images with any of the labels, with all of them, or of the branch below them: animal also finds "
        "animal/dog.",
    )


class SearchRequest(SearchOptions):
    """A search with a stored image, a vector or a code."""

    query: SearchQuery
    also: Annotated[list[SearchQuery], FailFast()] = Field(
        default=[], max_length=MAX_EXAMPLES, description="More examples. All examples together are one query."
    )
    unlike: Annotated[list[SearchQuery], FailFast()] = Field(
        default=[], max_length=MAX_EXAMPLES, description="Counter-examples: images near them come later."
    )
    exclude: Annotated[list[ImageId], FailFast()] = Field(
        default=[], max_length=MAX_MATCHES, description="Ids of images to leave out of the result."
    )


class ClassifyRequest(_RequestBody):
    """A query to classify."""

    query: SearchQuery
    k: int = Field(default=5, ge=1, le=MAX_MATCHES, description="Number of neighbours that vote.")
    n_bits: Bits | None = None
    weights: Literal["uniform", "distance"] = Field(
        default="uniform", description="distance: a vote counts 1 / distance; neighbours at distance 0 vote alone."
    )
    unknown: Unknown | None = None


class ExplainRequest(_RequestBody):
    """Two codes to compare."""

    a: SearchQuery
    b: SearchQuery
    n_bits: Bits | None = None
    likeness: Likeness | None = None


class RelabelRequest(_RequestBody):
    """Images and their new class."""

    ids: Annotated[list[ImageId], FailFast()] = Field(min_length=1, max_length=MAX_MATCHES)
    label: Label | None = Field(description="The class; null: no label.")


class OcclusionRequest(_RequestBody):
    """A stored image, and the code to compare it with."""

    id: ImageId
    other: SearchQuery
    n_bits: Bits | None = None
    likeness: Likeness | None = None
    grid: Grid | None = None


class SessionRequest(_RequestBody):
    """The API key, to get a session cookie."""

    key: str = Field(max_length=1000)


# Responses


class Image(BaseModel):
    """A stored image."""

    id: int
    name: Text
    label: Text | None = Field(description="The label; several are separated by commas.")
    labels: list[Text] = Field(description="The labels, empty if there are none.")
    part: str = Field(description="train: used for training; held-out: used for evaluation; added: neither.")
    has_file: bool = Field(default=False, description="Whether the image was read from a file.")

    @classmethod
    def of(cls, record: ImageRecord) -> "Image":
        """Return the image of a record."""
        return cls(**vars(record), has_file=bool(record.path))


class Match(Image):
    """A stored image and its distance to the query."""

    distance: float
    similarity: float = Field(
        description="From 0 to 1: 1 minus the distance divided by the largest possible one (the sum of the weights "
        "of the bits, or the sum of the norms of two raw vectors)."
    )
    agree: int | None = Field(description="Number of bits, of n_bits, that agree; null for raw vectors.")


class ImagePage(BaseModel):
    """Some of the stored images, by ascending id."""

    total: int = Field(description="Number of stored images of the requested class and part.")
    images: list[Image]


class SearchResult(BaseModel):
    """The most similar images, nearest first. Images at the same distance are ranked by their vectors."""

    matches: list[Match]
    how: How
    n_bits: int | None = Field(description="Number of bits compared; null for raw vectors.")
    bytes_per_image: int
    searched: int = Field(description="Number of stored images.")
    seconds: float = Field(description="Time of the search alone.")
    code: str = Field(description="Code of the query, in hexadecimal.")
    label: Text | None = Field(default=None, description="Label of the query, if it is a stored image with a label.")
    labels: list[Text] = Field(default=[], description="Labels of the query, if it is a stored image.")
    vector: list[float] | None = Field(
        default=None, description="Raw vector of the uploaded image, if the request asks for it."
    )


class Vote(BaseModel):
    """A class and its number of votes."""

    label: Text
    votes: int = Field(description="Votes, rounded: if the query is a code, images that tie share votes.")
    share: float = Field(description="Share of all votes, from 0 to 1.")


class Classification(BaseModel):
    """The predicted class."""

    label: Text = Field(description="The class; several labels are separated by commas. See unknown.")
    labels: list[Text] = Field(description="The predicted labels, empty if there are none.")
    votes: list[Vote] = Field(description="Most votes first, without classes that have no vote.")


class Explanation(BaseModel):
    """Two codes, bit by bit. The weights of the bits that differ add up to the distance."""

    agree: list[bool]
    weights: list[float]
    bits: list[bool] = Field(description="The bits of code a.")
    distance: float
    differing: int = Field(description="Number of bits that differ.")


class ClassCount(BaseModel):
    """A class and its number of stored images."""

    label: Text | None = Field(description="The class; null: images without a label.")
    images: int


class BitWeights(BaseModel):
    """The weight of each bit at one code length."""

    n_bits: int
    weights: list[float]


class ClassShare(BaseModel):
    """How many of the images of a class have the value 1 in a bit."""

    label: Text
    images: int
    ones: int


class BitExamples(BaseModel):
    """Images where one bit is 0 (negative) and where it is 1 (positive), furthest from the threshold first."""

    bit: int
    weight: float
    classes: list[ClassShare] = Field(description="All classes, over all stored images.")
    negative: list[Image]
    positive: list[Image]


class Prediction(Image):
    """A held-out image and the class predicted for it."""

    predicted: Text | None = Field(description="null: no neighbour has a label.")


class PredictionPage(BaseModel):
    """Some of the held-out images, with the class predicted for each."""

    total: int = Field(description="Number of requested images.")
    images: list[Prediction]


class DuplicateImages(BaseModel):
    """Images that are near-duplicates."""

    similarity: float = Field(description="Of the least similar pair of raw vectors, from 0 to 1.")
    images: list[Image]


class DuplicatePage(BaseModel):
    """Groups of near-duplicates, the most similar first."""

    total: int = Field(description="Number of groups.")
    groups: list[DuplicateImages]


class OcclusionMap(BaseModel):
    """What hiding each part of a picture does to the bits that it shares with another code; rows from the top."""

    heat: list[list[float]] = Field(description="Share of the weight of the shared bits, from 0 to 1.")
    flipped: list[list[int]] = Field(description="Number of shared bits that change.")
    n_bits: int = Field(description="Number of shared bits.")


class Relabelled(BaseModel):
    """The images with their new label."""

    images: list[Image]
    unlearned: int = Field(description="Number of labels given since the last fit.")


class RefitState(BaseModel):
    """The progress of learning again."""

    phase: Literal["never", "starting", "learning", "encoding", "measuring", "done", "failed", "cancelled"]
    done: int = 0
    total: int = Field(default=0, description="Bits to learn, images to encode or to measure with.")
    seconds: float = Field(default=0.0, description="Since the start.")
    error: str | None = None


class Confusion(BaseModel):
    """How often held-out images of a true class (row) were assigned to a class (column)."""

    classes: list[Text]
    matrix: list[list[int]]


class AddedImages(BaseModel):
    """The images that were added."""

    images: list[Image]
    total: int = Field(description="Number of stored images.")


class RemovedImage(BaseModel):
    """The image that was removed."""

    id: int
    total: int = Field(description="Number of stored images.")


class ProjectInfo(BaseModel):
    """The served project and the limits of the service."""

    name: Text
    total: int = Field(description="Number of stored images.")
    classes: list[Text]
    n_bits: int
    lengths: list[int] = Field(description="Code lengths to choose from.")
    n_values: int = Field(description="Length of a raw vector.")
    descriptor: str | None = Field(description="Descriptor that turns an image into a vector; null for vectors.")
    coder: str
    has_pictures: bool
    likeness: float | None = Field(
        description='Point between "same class" and "looks alike" at which the weights were learned; null: searches '
        "take no likeness."
    )
    weighted: bool = Field(description="Whether some bits have more weight than others.")
    writable: bool = Field(description="Whether images can be added and removed.")
    relabels: bool = Field(description="Whether labels can be changed and codes learned again.")
    unlearned: int = Field(description="Number of labels given since the last fit.")
    needs_key: bool = Field(description="Whether the service has an API key.")
    max_upload: int = Field(description="Largest request in bytes.")
    max_files: int = Field(description="Most images in one request.")
    max_pixels: int = Field(description="Largest image in pixels.")
    evaluation: dict[str, Any] = Field(description="Accuracy on held-out images.")
    version: str


class Health(BaseModel):
    """The state of the service."""

    status: Literal["ok", "stale"] = Field(
        description="stale: the project cannot be read again, and requests get its last state. The log says why."
    )
    images: int = Field(description="Number of stored images.")
