"""Loading of models, from a folder or the hub. The only module that calls `from_pretrained`.

Code that comes with a model is never run: `trust_remote_code` is False for everything that
transformers loads, so that it neither executes such code nor asks for permission. Models that need
it are rejected with an error of one line.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from minrisk._core.errors import InputError, MissingExtra, warn
from minrisk._torch.quiet import unattended
from minrisk._torch.weights import pickle_refusal

T = TypeVar("T")

_HINT = ("expected a folder with a model's files, or its name on the hub (owner/name); for a "
         "gated model accept its terms there and run `hf auth login`")
_REACH_SECONDS = 10.0  # timeout of a request to the hub
_MAX_ERROR_CHARACTERS = 300  # characters shown of another package's error
_MAX_LAYERS = 1000
_MAX_DIMENSION = 10**8  # larger dimensions (vocabularies included) are corrupt or malicious
# the first version that does not import classes named in a model folder
_MIN_SENTENCE_TRANSFORMERS = 6


def model_folder(model: str) -> Path:
    """The folder of a model: a local one, or a snapshot from the hub."""
    path = Path(model)
    if path.is_dir():
        return path
    if model.count("/") != 1 or path.is_absolute():
        raise InputError(f"{model}: no such file or folder, and not the name of a model on the hub "
                         "(owner/name)")
    from huggingface_hub import snapshot_download

    return Path(_fetch(partial(snapshot_download, model), model, "files", _HINT))


def model_file(model: str, name: str) -> Path:
    """The path of one file of a model, local or from the hub."""
    if (Path(model) / name).is_file():
        return Path(model) / name
    if Path(model).exists():
        raise InputError(f"{model}: found no {name}; give a folder that has it")
    from huggingface_hub import hf_hub_download

    return Path(_fetch(partial(hf_hub_download, model, name), model, name,
                       "give a folder that has it"))


def load_config(name: str, hint: str = _HINT) -> Any:
    """A model's configuration, of a type that transformers knows and with plausible sizes."""
    from transformers import AutoConfig

    config = _pretrained(AutoConfig, name, "configuration", hint)
    _check_kernels(config, name)
    check_sizes(config, name)
    return config


def load_tokenizer(name: str, kind: Any = None, hint: str = _HINT, **settings: Any) -> Any:
    """A tokenizer of transformers [default: of the class that the model names]."""
    from transformers import AutoTokenizer

    with warnings.catch_warnings():
        # Moses normalises punctuation for Marian; the extra minrisk[hf] includes it
        warnings.filterwarnings("ignore", "Recommended: pip install sacremoses")
        return _pretrained(kind or AutoTokenizer, name, "tokenizer", hint, **settings)


def load_model(kind: Any, name: str, config: Any, **settings: Any) -> Any:
    """A model; missing weights are an error, where transformers would initialise them randomly."""
    _check_generation(name)
    if getattr(config, "attn_logit_softcapping", None):
        # before 5.20, transformers silently chose SDPA, which ignores soft-capping
        settings["attn_implementation"] = "eager"
    model, found = _pretrained(kind, name, "model", _HINT, config=config,
                               output_loading_info=True, **settings)
    absent = sorted(key for key in found["missing_keys"] if "pooler" not in key)
    if absent:
        raise InputError(f"{name}: lacks {len(absent)} weights of {type(model).__name__}, such as "
                         f"{absent[0]}; check that the model is of the right kind")
    return model.eval()


def load_sentence_encoder(name: str, device: str | None) -> Any:
    """A model of sentence-transformers, in a version that does not run code of models."""
    import sentence_transformers

    if int(sentence_transformers.__version__.split(".")[0]) < _MIN_SENTENCE_TRANSFORMERS:
        raise MissingExtra(
            f"sentence-transformers {sentence_transformers.__version__} executes code of model "
            f"folders; expected version {_MIN_SENTENCE_TRANSFORMERS} or later: pip install "
            "'minrisk[sentence-transformers]'")
    _check_generation(name)
    # overrides the model's choice, which may be a kernel from the hub
    chosen = {"attn_implementation": None}
    load = partial(sentence_transformers.SentenceTransformer, name, device=device,
                   trust_remote_code=False, model_kwargs=chosen, config_kwargs=chosen)
    return _fetch(load, name, "sentence-transformers model", _HINT)


def _pretrained(kind: Any, name: str, what: str, hint: str, **settings: Any) -> Any:
    load = partial(kind.from_pretrained, name, trust_remote_code=False, **settings)
    return _fetch(load, name, what, hint)


def _fetch(get: Callable[..., T], name: str, what: str, hint: str) -> T:
    """The result of `get` from a folder or the local cache, else from the hub."""
    try:
        with unattended():
            return get(local_files_only=True)
    except Exception as error:  # transformers raises many types; all mean that loading failed
        _raise_refusal(error, name, what)
        reason = error
    if not _may_be_on_hub(name):
        raise InputError(f"{name}: its {what} cannot be read: {short_error(reason)}; "
                         f"{hint}") from None
    _reach_hub(name, "" if hint == _HINT else f"; {hint}")
    try:
        with unattended():
            return get()
    except Exception as error:
        _raise_refusal(error, name, what)
        raise InputError(f"{name}: there is no such folder, and neither the local cache nor the "
                         f"hub has its {what}: {short_error(error)}; {hint}") from None


def _may_be_on_hub(name: str) -> bool:
    """Whether a name has the form owner/name, or name, as old models have."""
    return name.count("/") <= 1 and not name.startswith((".", "~", "/")) and not os.path.exists(
        name)


def _reach_hub(name: str, advice: str) -> None:
    """One request with a short timeout; huggingface_hub retries an unreachable hub for 30 s."""
    from huggingface_hub import constants
    from huggingface_hub.utils import get_session

    if constants.HF_HUB_OFFLINE:
        return
    try:
        get_session().head(constants.ENDPOINT, timeout=_REACH_SECONDS)
    except Exception as error:  # httpx or requests, depending on the version of huggingface_hub
        raise InputError(
            f"{name}: there is no such folder, the local cache ({constants.HF_HUB_CACHE}) does not "
            f"have it, and the hub ({constants.ENDPOINT}) cannot be reached: {short_error(error)}; "
            "give a local folder with the model's files, or set the environment variable "
            f"HF_ENDPOINT to a mirror of the hub{advice}") from None
    warn(f"downloading {name} from the Hugging Face hub to the local cache, if it is not there yet")


def _raise_refusal(error: BaseException, name: str, what: str) -> None:
    """Raises errors that a download would not fix."""
    if isinstance(error, (InputError, MissingExtra)):
        raise error
    if isinstance(error, ImportError):  # e.g. a package for its quantization
        raise MissingExtra(f"{name}: its {what} needs a package that is not installed: "
                           f"{short_error(error)}") from None
    if "trust_remote_code" in str(error):
        raise InputError(f"{name}: its {what} needs code from the model's own files (auto_map or a "
                         "foreign class), which is never executed; choose a model that the "
                         "installed transformers supports") from None
    if any(words in str(error) for words in ("ignore_mismatched_sizes", "size mismatch")):
        raise InputError(f"{name}: the sizes of its weights do not match its configuration; copy "
                         "it again") from None
    if (reason := pickle_refusal(error)) is not None:
        raise InputError(f"{name}: its {what} cannot be read: {reason}") from None


def _check_generation(name: str) -> None:
    """Refuse models with a generation loop of their own: transformers (e.g. 4.56) imports it from
    the folder without asking.
    """
    for pattern in ("custom_generate", "*/custom_generate"):
        for found in Path(name).glob(pattern) if Path(name).is_dir() else ():
            raise InputError(f"{found}: the model comes with its own generation loop, which is "
                             "never executed; remove the file to use the model without it")


def _check_kernels(config: Any, name: str) -> None:
    """Refuse an attention named owner/name: transformers would download and run compiled code.

    Configurations of parts of the model are checked, too.
    """
    for field, value in vars(config).items():
        if hasattr(value, "to_dict"):
            _check_kernels(value, name)
        elif "implementation" in field and "/" in str(value):
            option = field.strip("_").removesuffix("_internal")
            raise InputError(f"{name}: its configuration names the kernel {str(value)!r} of the "
                             f"hub, which is never executed; remove {option} from config.json")


def check_sizes(config: Any, name: object) -> None:
    """Reject absurd sizes before anything is allocated."""
    for field, value in config.to_dict().items():
        most = _MAX_LAYERS if field.endswith(("layers", "_layer")) else _MAX_DIMENSION
        sized = field.endswith(("_size", "layers", "_layer", "_dim", "_heads", "_embeddings",
                                "d_model", "d_ff", "d_kv", "n_embd", "n_positions"))
        if sized and isinstance(value, int) and value > most:
            raise InputError(f"{name}: its configuration has {field} {value}; expected {most} at "
                             "most")


def short_error(error: BaseException) -> str:
    """The message of another package's error, shortened to fit into one line."""
    return " ".join(str(error).split())[:_MAX_ERROR_CHARACTERS] or type(error).__name__
