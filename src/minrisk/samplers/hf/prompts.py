"""Tokenization of prompts: language codes, prompt templates, chat templates, truncation."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from minrisk._core.errors import InputError, warn
from minrisk._core.lazy import lazy
from minrisk._core.sampler import Message, Prompt
from minrisk._core.texts import fill, valid_unicode
from minrisk._torch.tokens import token_ids, tokenizing
from minrisk.samplers.hf.generic_decoder import decoder_config
from minrisk.samplers.hf.prefixes import TokenizedPrompt

if TYPE_CHECKING:
    from minrisk.samplers.hf import Transformers

# tokenizers of models that need a target language
_MULTILINGUAL = ("M2M100Tokenizer", "NllbTokenizer", "MBart50Tokenizer")
_SYSTEM = ("system", "developer")  # roles
_PLACEHOLDER = "\x1asource\x1a"  # stands for the message in a rendered template
_UNLIMITED_TOKENS = 1_000_000  # tokenizers without a limit report more than this


class PromptEncoder:
    """Turns prompts and messages into the token ids of the model's input."""

    def __init__(self, options: Transformers, model: Any, tokenizer: Any, limit: int) -> None:
        self._options, self._tokenizer = options, tokenizer
        self._causal = not model.config.is_encoder_decoder
        self._max_source_tokens = _max_source_tokens(model, tokenizer, limit if self._causal else 0)
        self._decoder_prefix: tuple[int, ...] = ()
        if not self._causal:
            self._decoder_prefix = (decoder_start(model),)
        self._has_chat_template = self._causal and bool(tokenizer.chat_template)
        if options.system is not None and not self._has_chat_template:
            raise InputError("system is for models with a chat template, which this model lacks; "
                             "put it into prompt")
        if options.source_language is not None:
            self._set_source(options.source_language)
        # the target language token
        self.forced_bos: int | None = model.generation_config.forced_bos_token_id
        kind = type(tokenizer).__name__
        if options.target_language is not None:
            self.forced_bos = self._check_code(options.target_language)
            if kind.startswith("MBartTokenizer"):  # the output starts with the language code
                self._decoder_prefix, self.forced_bos = (self.forced_bos,), None
        elif self.forced_bos is None and kind.startswith(_MULTILINGUAL):
            raise InputError("this model generates several languages; set target_language to one "
                             f"of its codes, which look like {_examples(tokenizer)}")

    def _set_source(self, language: str) -> None:
        if not hasattr(self._tokenizer, "src_lang"):  # it would ignore the language
            raise InputError(f"source_language {language!r}: this model has no source language; "
                             "leave it out")
        self._check_code(language)
        self._tokenizer.src_lang = language

    def of(self, given: Sequence[Prompt], indices: Sequence[int]) -> list[TokenizedPrompt]:
        ids = [self._ids(prompt) for prompt in given]
        for own, index in zip(ids, indices, strict=True):
            if not own:
                raise InputError(f"source {index + 1} has no token that the model knows; check "
                                 "that the tokenizer belongs to the model")
        long = [index for own, index in zip(ids, indices, strict=True)
                if len(own) > self._max_source_tokens]
        if long:
            self._report_overlong(long, len(given))
            ids = [self._cut(own) for own in ids]
        if self._causal:
            return [TokenizedPrompt((), tuple(own)) for own in ids]
        return [TokenizedPrompt(tuple(own), self._decoder_prefix) for own in ids]

    def _ids(self, prompt: Prompt) -> list[int]:
        options = self._options
        if not isinstance(prompt, str):
            if options.prompt is not None:
                raise InputError("found messages, which cannot be used with a prompt template; "
                                 "leave out prompt, or give sources")
            return self._chat_ids(prompt)
        text = fill(options.prompt, prompt)
        if not self._has_chat_template:
            return token_ids(self._tokenizer, [text])[0]
        if any(marker in (options.prompt or prompt) for marker in self._markers):
            begins = text.startswith(self._tokenizer.bos_token or "\0")
            return token_ids(self._tokenizer, [text], add_special_tokens=not begins)[0]
        return self._chat_ids([{"role": "user", "content": text}])

    def _chat_ids(self, messages: Sequence[Message]) -> list[int]:
        if not self._has_chat_template:
            raise InputError("found messages, which only models with a chat template support; "
                             "give a source or a prompt, or choose a model for chats")
        with tokenizing():
            found = self._render(messages, tokenize=True, return_dict=True)
        ids: list[int] = found["input_ids"]
        return ids

    def _render(self, messages: Sequence[Message], **settings: Any) -> Any:
        """The messages rendered by the chat template, up to where the answer begins."""
        try:
            return self._tokenizer.apply_chat_template(
                self._with_system(messages), add_generation_prompt=True, **settings)
        except Exception as error:  # templates are programs and may raise anything
            raise InputError(f"the model's chat template does not take these messages: {error}"
                             ) from None

    def _with_system(self, messages: Sequence[Message]) -> list[dict[str, Any]]:
        found = [{name: valid_unicode(own) if isinstance(own, str) else own
                  for name, own in message.items()} for message in messages]
        system = self._options.system
        if system is None or any(own.get("role") in _SYSTEM for own in found):
            return found
        return [{"role": "system", "content": system}, *found]

    @lazy
    def _markers(self) -> list[str]:
        """Markers of the chat template, to recognise prompts that are already templated."""
        rendered = self._render([{"role": "user", "content": _PLACEHOLDER}], tokenize=False)
        bos = self._tokenizer.bos_token or ""
        tokens = [token for token in self._tokenizer.get_added_vocab()
                  if token in rendered and token != bos]
        # for templates without special tokens, the line before the message
        before = rendered.partition(_PLACEHOLDER)[0].removeprefix(bos).strip().splitlines()
        return tokens or before[-1:]

    def _report_overlong(self, long: Sequence[int], total: int) -> None:
        limit = f"more than {self._max_source_tokens} tokens"
        if self._options.overlong == "error":
            raise InputError(f"source {long[0] + 1} has {limit}, which is more than the model "
                             "takes; shorten it, or set overlong to cut")
        warn(f"{len(long)} of {total} sources have {limit}; the model does not see "
             "the rest")

    def _cut(self, ids: list[int]) -> list[int]:
        """Truncate: a source keeps its beginning and its last token, a prompt keeps its end."""
        if len(ids) <= self._max_source_tokens:
            return ids
        if self._causal:
            return ids[-self._max_source_tokens :]
        return [*ids[: self._max_source_tokens - 1], ids[-1]]

    def _check_code(self, language: str) -> int:
        """The token id of a language."""
        tokenizer = self._tokenizer
        written = getattr(tokenizer, "lang_code_to_token", {}).get(language, language)  # M2M-100's
        token = tokenizer.convert_tokens_to_ids(written)
        if token is not None and token != tokenizer.unk_token_id:
            return int(token)
        raise InputError(f"language {language!r} is not a code of this model's tokenizer; codes "
                         f"look like {_examples(tokenizer)}")


def decoder_start(model: Any) -> int:
    """The decoder start token."""
    config = model.generation_config
    for token in (config.decoder_start_token_id, model.config.decoder_start_token_id,
                  config.bos_token_id):
        if isinstance(token, int):
            return token
    raise InputError("the model's config has no decoder_start_token_id; set it")


def _max_source_tokens(model: Any, tokenizer: Any, written: int) -> int:
    """Maximum number of tokens of a source."""
    positions = getattr(decoder_config(model), "max_position_embeddings", None)
    limits = [_UNLIMITED_TOKENS if positions is None else positions - written,
              min(tokenizer.model_max_length, _UNLIMITED_TOKENS) - written]
    if min(limits) < 1:
        raise InputError(f"max_tokens {written} leaves no room for a prompt; choose a smaller "
                         "number")
    return int(min(limits))


def _examples(tokenizer: Any) -> str:
    codes = [*getattr(tokenizer, "lang_code_to_token", {})] or [
        token for token in tokenizer.all_special_tokens if "_" in token]
    return ", ".join(codes[:4]) or "none: it knows no languages"
