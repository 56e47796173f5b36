"""How much can a transformer memorize?

>>> import byrote
>>> c = byrote.Corpus(builtin=100)                       # a path, texts, ids; here 100 built-in stories
>>> round(c.floor.nats_per_prediction, 4)                # the lowest training loss that any model can reach
0.3536
>>> m = byrote.build.madden2024(c)                       # weights that reach it, computed without training
>>> byrote.certify(m, c).verdict                         # and a proof that they do
'certified'
"""

from byrote import build, callbacks
from byrote._byrote import version as _version
from byrote._corpus import Corpus, Floor, LossReading, builtin_stories
from byrote._errors import (
    BusyError,
    EmptyCorpusError,
    Error,
    FileError,
    ForbiddenFileError,
    FormatError,
    InputError,
    MissingFileError,
    OtherRunError,
    RefusedError,
    SequenceError,
    SettingError,
    UnknownSettingError,
)
from byrote._jobs import Step, bounds, certify, evaluate, train
from byrote._model import Model, load
from byrote._results import Bounds, Certificate, Construction, Evaluation, Prediction, Result, Training
from byrote._table import Table

__version__ = _version()

__all__ = [
    "Bounds",
    "BusyError",
    "Certificate",
    "Construction",
    "Corpus",
    "EmptyCorpusError",
    "Error",
    "Evaluation",
    "FileError",
    "Floor",
    "ForbiddenFileError",
    "FormatError",
    "InputError",
    "LossReading",
    "MissingFileError",
    "Model",
    "OtherRunError",
    "Prediction",
    "RefusedError",
    "Result",
    "SequenceError",
    "SettingError",
    "Step",
    "Table",
    "Training",
    "UnknownSettingError",
    "bounds",
    "build",
    "builtin_stories",
    "callbacks",
    "certify",
    "evaluate",
    "load",
    "train",
]
