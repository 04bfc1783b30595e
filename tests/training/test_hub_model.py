import pytest

from lora_spec.errors import TrainingInputError
from lora_spec.training.hub_model import fetch_hub_model


def test_a_model_without_a_revision_is_not_fetched(tmp_path):
    with pytest.raises(TrainingInputError, match="owner/model: no immutable revision"):
        fetch_hub_model("owner/model", None, tmp_path / "out")
    assert not (tmp_path / "out").exists()


@pytest.mark.serving
def test_without_the_hub_the_error_says_what_to_do_and_leaves_nothing(tmp_path, monkeypatch):
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    with pytest.raises(TrainingInputError, match="put the folder to"):
        fetch_hub_model("owner/model", "0" * 40, tmp_path / "out")
    assert list(tmp_path.iterdir()) == []
