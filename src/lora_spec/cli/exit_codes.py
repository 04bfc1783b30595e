"""What the exit status of ``lora-spec`` means."""

OK = 0
FAILED = 1
WRONG_INPUT = 2
ABSTAIN = 3

OF_STATUS = {"ok": OK, "abstain": ABSTAIN, "error": WRONG_INPUT}


def of_statuses(statuses: "set[str]") -> int:
    """Return the exit code for several answers: 2 if any is wrong, else 3 if any abstains, else 0."""
    if "error" in statuses:
        return WRONG_INPUT
    return ABSTAIN if "abstain" in statuses else OK
