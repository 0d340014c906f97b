"""What is asked and answered, as JSON: the OpenAPI document is made from these."""

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

__all__ = [
    "Added",
    "Asked",
    "BitSides",
    "ByCode",
    "ById",
    "ByVector",
    "Classified",
    "Classify",
    "Confusion",
    "Explain",
    "Explained",
    "Found",
    "Health",
    "How",
    "Image",
    "Images",
    "Key",
    "Label",
    "Match",
    "ProjectInfo",
    "Removed",
    "Search",
    "SearchOptions",
    "Vote",
    "Weights",
]

MOST_MATCHES = 1000
LARGEST_ID = 2**63 - 1
_MOST_BITS = 2**16
_MOST_FIELDS = 20
_LARGEST = 1e15  # squares of differences, and sums of them, are then far from the end of float32

How = Literal["weighted", "plain", "raw"]
ImageId = Annotated[int, Field(ge=0, le=LARGEST_ID)]
Bits = Annotated[int, Field(ge=1, le=_MOST_BITS, description="Only the first bits of each code; all without it.")]


def _printable(text: str) -> str:
    if not text.isprintable():
        raise ValueError("only characters that can be printed are accepted")
    return text


def shown(text: object) -> object:
    """Text with whatever is no character escaped: names of files may be any bytes."""
    return text.encode(errors="backslashreplace").decode() if isinstance(text, str) else text


Text = Annotated[str, BeforeValidator(shown)]
Label = Annotated[str, StringConstraints(min_length=1, max_length=200), AfterValidator(_printable)]


class _Given(BaseModel):
    model_config = ConfigDict(extra="forbid", allow_inf_nan=False)

    @model_validator(mode="before")
    @classmethod
    def _few_fields(cls, data: Any) -> Any:
        # Each field that is not known is told by an error of its own: a million of them would stop the service.
        if isinstance(data, dict) and len(data) > _MOST_FIELDS:
            raise ValueError(f"{len(data)} fields came; at most {_MOST_FIELDS} are accepted")
        return data


# Queries


class ById(_Given):
    """A stored image."""

    id: ImageId


class ByVector(_Given):
    """A raw vector, as the descriptor gives it."""

    vector: Annotated[list[Annotated[float, Field(ge=-_LARGEST, le=_LARGEST)]], FailFast()] = Field(
        min_length=1, max_length=2**17
    )


class ByCode(_Given):
    """A packed code in hexadecimal digits, two a byte; bit 0 is the highest of the first byte."""

    code: str = Field(pattern="^([0-9a-fA-F]{2})+$", max_length=_MOST_BITS // 4)


Asked = ById | ByVector | ByCode


class SearchOptions(_Given):
    """How to search."""

    k: int = Field(default=10, ge=1, le=MOST_MATCHES, description="How many are wanted.")
    n_bits: Bits | None = None
    how: How = "weighted"
    label: Label | None = Field(default=None, description="Only images of this class.")


class Search(SearchOptions):
    query: Asked
    exclude: Annotated[list[ImageId], FailFast()] = Field(
        default=[], max_length=MOST_MATCHES, description="Images that are not to be found."
    )


class Classify(_Given):
    query: Asked
    k: int = Field(default=5, ge=1, le=MOST_MATCHES, description="How many of the nearest vote.")
    n_bits: Bits | None = None


class Explain(_Given):
    a: Asked
    b: Asked
    n_bits: Bits | None = None


class Key(_Given):
    key: str = Field(max_length=1000)


# Answers


class Image(BaseModel):
    """A stored image."""

    id: int
    name: Text
    label: Text | None
    part: str = Field(description="train: learned from; held-out: measured on; added: neither.")

    @classmethod
    def of(cls, record: ImageRecord) -> "Image":
        return cls(id=record.id, name=record.name, label=record.label, part=record.part)


class Match(Image):
    distance: float


class Images(BaseModel):
    """One page of the stored images, by ascending id."""

    total: int
    images: list[Image]


class Found(BaseModel):
    """The nearest images, nearest first."""

    matches: list[Match]
    how: How
    n_bits: int | None = Field(description="Bits compared; none for raw vectors.")
    bytes_per_image: int
    searched: int = Field(description="Images that there are.")
    seconds: float = Field(description="That the search itself took.")
    code: str = Field(description="The code of the query.")
    label: Text | None = Field(
        default=None, description="The label of the query, where it is a stored image that has one."
    )
    vector: list[float] | None = Field(
        default=None, description="The raw vector of an uploaded image, where asked for."
    )


class Vote(BaseModel):
    label: Text
    votes: int


class Classified(BaseModel):
    label: Text
    votes: list[Vote] = Field(description="Most votes first; classes without a vote are left out.")


class Explained(BaseModel):
    """Two codes, bit by bit. The weights of the bits that differ add up to the distance."""

    agree: list[bool]
    weights: list[float]
    bits: list[bool] = Field(description="The bits of a.")
    distance: float
    differing: int


class Weights(BaseModel):
    """The weight of each bit at one code length."""

    n_bits: int
    weights: list[float]


class BitSides(BaseModel):
    """Images on the two sides of one bit, most certain first."""

    bit: int
    weight: float
    negative: list[Image]
    positive: list[Image]


class Confusion(BaseModel):
    """How often a held-out image of a class (row) was taken for another (column)."""

    classes: list[Text]
    matrix: list[list[int]]


class Added(BaseModel):
    images: list[Image]
    total: int


class Removed(BaseModel):
    id: int
    total: int


class ProjectInfo(BaseModel):
    """What is served."""

    name: Text
    total: int
    classes: list[Text]
    n_bits: int
    lengths: list[int] = Field(description="Code lengths that a search offers.")
    n_values: int = Field(description="Values of a raw vector.")
    descriptor: str | None = Field(description="What makes a vector of an image; none: the project holds vectors.")
    coder: str
    has_pictures: bool
    writable: bool
    max_upload: int
    max_files: int
    max_pixels: int
    evaluation: dict[str, Any]
    version: str


class Health(BaseModel):
    status: Literal["ok"]
    images: int
