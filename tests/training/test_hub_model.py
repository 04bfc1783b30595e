"""What a hub gives is a whole model or one line of error, whatever the hub answers."""

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from lora_spec.errors import TrainingInputError
from lora_spec.training.hub_model import fetch_hub_model

REVISION = "0" * 40


def test_a_model_without_a_revision_is_not_fetched(tmp_path):
    with pytest.raises(TrainingInputError, match="owner/model: no immutable revision"):
        fetch_hub_model("owner/model", None, tmp_path / "out")
    assert not (tmp_path / "out").exists()


@pytest.mark.serving
def test_without_the_hub_the_error_says_what_to_do_and_leaves_nothing(tmp_path, monkeypatch):
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)  # read from the environment at import
    with pytest.raises(TrainingInputError, match="put the folder to"):
        fetch_hub_model("owner/model", REVISION, tmp_path / "out")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.serving
def test_a_name_that_no_repository_can_have_is_an_error_in_one_line(tmp_path):
    with pytest.raises(TrainingInputError, match="HFValidationError"):
        fetch_hub_model("owner/model--x.", REVISION, tmp_path / "out")


INFO = {"id": "owner/model", "sha": REVISION, "siblings": []}


def _listed(*paths):
    return [{"type": "file", "path": path, "size": 2, "oid": "abc"} for path in paths]


@pytest.fixture
def hub(monkeypatch, socket_enabled):
    """Return a function that makes a hub on loopback answer with some files, or with a page of text for everything."""
    from huggingface_hub import constants

    files, page = [], []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self):
            answer = _listed(*files) if "/tree/" in self.path else INFO
            body = b"{}" if "/resolve/" in self.path else json.dumps(answer).encode()
            body = page[0] if page else body
            self.send_response(200)
            self.send_header("ETag", '"abc"')
            self.send_header("X-Repo-Commit", REVISION)
            # A line that breaks: fewer bytes come than were told of.
            self.send_header("Content-Length", str(len(body) + (9 if self.path.endswith("cut.json") else 0)))
            self.end_headers()
            if self.command == "GET":
                self.wfile.write(body)

        do_HEAD = do_GET  # noqa: N815

        def log_message(self, *_):
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        address = f"http://127.0.0.1:{server.server_port}"
        monkeypatch.setattr(constants, "ENDPOINT", address)
        monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
        monkeypatch.setattr(
            constants, "HUGGINGFACE_CO_URL_TEMPLATE", address + "/{repo_id}/resolve/{revision}/{filename}"
        )

        def answer(*paths, text=None):
            files[:], page[:] = paths, [] if text is None else [text]

        yield answer
        server.shutdown()


@pytest.mark.serving
@pytest.mark.parametrize(
    ("files", "page", "words"),
    [
        (["README.md", "pytorch_model.bin"], None, "holds no \\*.safetensors"),
        (["config.json"], None, "holds no \\*.safetensors"),
        (["model.safetensors", "cut.json"], None, "cannot be fetched"),
        (["model.safetensors", "../out.json"], None, "cannot be fetched"),
        ([], b"<html>please log in</html>", "cannot be fetched"),
        ([], b"{}", "holds no|cannot be fetched"),
        ([], b"[]", "holds no|cannot be fetched"),
    ],
)
def test_what_is_no_model_is_an_error_in_one_line_and_leaves_nothing(tmp_path, hub, files, page, words):
    hub(*files, text=page)
    with pytest.raises(TrainingInputError, match=words):
        fetch_hub_model("owner/model", REVISION, tmp_path / "out")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.serving
def test_a_model_is_what_its_repository_lists(tmp_path, hub):
    hub("model.safetensors", "config.json", "pytorch_model.bin")
    folder = fetch_hub_model("owner/model", REVISION, tmp_path / "out")
    assert {path.name for path in folder.iterdir()} == {"model.safetensors", "config.json"}
