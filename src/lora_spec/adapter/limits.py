"""How much of an adapter is read before the reader says no: the bounds on time and memory, in one place.

Each is several times what honest adapters need; within them an answer takes seconds and less than 300 MB, whatever the
files hold. A bound that is passed is told: ``E_`` where a file cannot be read at all, ``A_`` where only some numbers
are missing.
"""

MAX_CONFIG_BYTES = 4 * 2**20
MAX_INDEX_BYTES = 16 * 2**20
MAX_JSON_VALUES = 2**18  # in a config or an index; a text file of brackets costs 50 times its size in memory
MAX_LISTED_NAMES = 1024  # modules_to_save, target_parameters, trainable_token_indices: names of kinds, not of modules
MAX_PARAMETER_KINDS = 8  # last words of target_parameters, such as down_proj: each wrapper may hold any of them
MAX_PATTERN_TEXT = 2**16  # characters of patterns in a table, plain names aside

# The format allows a header of 100 MB; 40,000 tensors need 8 MB. All shards of an adapter together.
MAX_HEADER_BYTES = 24 * 2**20
MAX_TENSORS = 2**17
MAX_NAME_CHARACTERS = 1024
MAX_NAME_DOTS = 64
MAX_METADATA_ENTRIES = 2**14

MAX_EXPERTS = 4096  # in one stack; the largest models have 512
MAX_MODULES = 2**16  # all experts counted
MAX_MEASURED_RANK = 2048
MAX_HELD_ELEMENTS = 2**24  # of both factors together, where the rank is above MAX_MEASURED_RANK
MAX_STACK_BYTES = 256 * 2**20  # a B of several experts, in which the values of one lie scattered
MAX_OTHER_BYTES = 16 * 2**30  # tensors beside the measured factors; holes of sparse files do not count

MAX_FORMED = 2**30  # out * in * rank of a product that may be formed; above, cancelled values are rounding
MAX_FORMED_ELEMENTS = 2**23  # of what is held for it: a few matrices of sizes times its columns
OVERSAMPLED = 8  # columns of the subspace through which it is seen, beyond the rank

# Work in multiply-adds: about four seconds of one core for any file, and more for one that really fills the disk, so
# that a sparse file cannot ask for hours. 512 for each byte measures ranks up to a thousand in bfloat16.
WORK_FOR_ANY_FILE = 6e10
WORK_FOR_EACH_BYTE = 512.0
_WORK_FOR_EACH_MODULE = 2.5e6
_WORK_FOR_EACH_ELEMENT = 100.0
_WORK_FOR_EACH_FORMED = 32.0  # thin products are slow


class WorkBudget:
    """What is left of the work that an adapter may cause."""

    def __init__(self, bytes_on_disk: int) -> None:
        self._left = WORK_FOR_ANY_FILE + WORK_FOR_EACH_BYTE * bytes_on_disk

    def take(self, work: float) -> bool:
        """Take work from the budget; return False, and take nothing, where too little is left."""
        if work > self._left:
            return False
        self._left -= work
        return True


def spectrum_work(rank: int, in_features: int, out_features: int) -> float:
    """Return the multiply-adds for the singular values of B @ A on the usual way."""
    elements, short, long = rank * (in_features + out_features), *sorted((in_features, out_features))
    work = _WORK_FOR_EACH_MODULE + _WORK_FOR_EACH_ELEMENT * elements
    if rank > short:
        return work + float(rank) * short * long + triangle_work(short, long)
    return work + float(rank) * elements + 4.0 * rank**3


def formed_work(rank: int, in_features: int, out_features: int) -> float:
    """Return the work of forming B @ A twice and of seeing it through a subspace of about its rank."""
    width = min(rank + OVERSAMPLED, in_features, out_features)
    passes = 2.0 * (rank + width + _WORK_FOR_EACH_FORMED) * in_features * out_features
    return passes + triangle_work(width, in_features) + triangle_work(width, out_features)


def triangle_work(columns: int, rows: int) -> float:
    """Return the work of a QR decomposition and of the singular values of what it gives, slow as it is."""
    return 4.0 * rows * columns**2 + 7.0 * columns**3
