"""How much can a transformer memorize?

>>> import byrote
>>> c = byrote.Corpus(builtin=100)                       # a path, texts, ids; here 100 built-in stories
>>> round(c.floor.nats_per_prediction, 4)                # the lowest training loss that any model can reach
0.3536
>>> m = byrote.build.madden2024(c)                       # weights that reach it, computed without training
>>> byrote.certify(m, c).verdict                         # and a proof that they do
'certified'
"""

import importlib
from typing import TYPE_CHECKING, Any

from byrote import build, callbacks
from byrote._audit import Audit, audit, compare_audits
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
from byrote._whole import (
    InContext,
    Report,
    Study,
    Sweep,
    Threshold,
    export,
    figures,
    fit,
    incontext,
    rank,
    report,
    reproduce,
    study,
    sweep,
    threshold,
)

if TYPE_CHECKING:
    from byrote import ray as ray

__version__ = _version()


def __getattr__(name: str) -> Any:
    """Import ``byrote.ray`` when it is first used: it needs Ray."""
    if name == "ray":
        return importlib.import_module("byrote.ray")
    raise AttributeError(f"module 'byrote' has no attribute {name!r}")


__all__ = [
    "Audit",
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
    "InContext",
    "InputError",
    "LossReading",
    "MissingFileError",
    "Model",
    "OtherRunError",
    "Prediction",
    "RefusedError",
    "Report",
    "Result",
    "SequenceError",
    "SettingError",
    "Step",
    "Study",
    "Sweep",
    "Table",
    "Threshold",
    "Training",
    "UnknownSettingError",
    "audit",
    "bounds",
    "build",
    "builtin_stories",
    "callbacks",
    "certify",
    "compare_audits",
    "evaluate",
    "export",
    "figures",
    "fit",
    "incontext",
    "load",
    "rank",
    "report",
    "reproduce",
    "study",
    "sweep",
    "threshold",
    "train",
]
