"""Models: public ones by name."""

import pytest

from algorithms import models
from algorithms.models import find


def test_a_folder_and_a_missing_file_are_refused(tmp_path):
    with pytest.raises(ValueError, match="is a folder"):
        find(str(tmp_path))
    with pytest.raises(ValueError, match="No such file"):
        find(str(tmp_path / "config.json"))


def test_a_name_of_the_hub_is_not_downloaded_and_that_is_said():
    with pytest.raises(ValueError, match=r"nothing is downloaded: save its config.json and name the file"):
        find("mistralai/Mistral-7B-v0.3")


def test_a_name_too_long_for_a_file_is_an_unknown_model():
    with pytest.raises(ValueError, match=r"no model 'mmm.*': expected one of"):
        find("m" * 5000)


def test_an_unknown_model_names_the_nearest():
    with pytest.raises(ValueError, match=r"no model .llama3-7b.: .*nearest is llama3-"):
        find("llama3-7b")


@pytest.mark.parametrize("model", models.MODELS.values(), ids=lambda model: model.name)
def test_a_known_model_has_a_source_and_sizes_that_fit(model):
    assert model.source
    assert model.heads % model.kv_heads == 0
    assert sum(kind.layers for kind in model.of_kinds) == model.layers
    assert [kind.window for kind in model.of_kinds] == sorted({kind.window for kind in model.of_kinds}, key=_sees_most)
    assert len(model.of_kinds) == 1 or "recalled" in model.source


def _sees_most(window):
    return window > 0, -window
