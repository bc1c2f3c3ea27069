"""From text to structs: environment, unknown keys, types. Every refusal names the key.

No refusal shows what came from the environment: it shows the variable's name instead.
"""

from __future__ import annotations

import difflib
import re
import tomllib
from collections.abc import Iterator, Mapping
from typing import Any, Final, TypeVar

import msgspec
from msgspec import inspect

from reconciler.config.secrets import Secret
from reconciler.config.tables import Chain, SettingsFile
from reconciler.kernel.refusals import Refusal
from reconciler.kernel.spans import Span, parse_span

#: Longer texts are no settings, and errors elsewhere cut what they quote.
TEXT_CHARACTERS_MAX: Final = 2_000
#: Shorter ones are no secrets, and would turn every "1" of a sentence into a name.
SECRET_CHARACTERS_MIN: Final = 4

_VARIABLE = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)\}")
_AT = re.compile(r"(?P<what>.*) - at `(?:key in )?\$(?P<path>.*)`", re.DOTALL)

_NOT_A_CHOICE: Final = "invalid enum value "

_WORDS: Final = {
    " | null`": "`",
    "`str`": "a text",
    "`int`": "a whole number",
    "`float`": "a number with a point",
    "`bool`": "true or false",
    "`object`": "a table",
    "`array`": "a list",
    ", got ": ", found ",
    "Object missing required field": "Missing",
}

#: What TOML has beside texts, in the same words.
_FOUND: Final = {bool: "true or false", int: "a whole number", float: "a number with a point"}

T = TypeVar("T")


class SettingsError(Refusal):
    """A setting is missing, unknown, malformed or impossible; names it and says why."""


class Reader:
    """One reading of one file. Knows which texts came from the environment, to keep them unseen."""

    def __init__(self, environment: Mapping[str, str]) -> None:
        self._environment = environment
        self._used: dict[str, str] = {}

    def read(self, text: str) -> SettingsFile:
        """Read the whole file. **Raises**: `SettingsError`."""
        try:
            tables = self._filled(tomllib.loads(text), "")
        except tomllib.TOMLDecodeError as error:
            raise self.refusal("the file", f"is not TOML: {error}") from None
        self._refuse_unknown(tables, inspect.type_info(SettingsFile), "")
        chains = tables.get("chains")
        for name, table in chains.items() if isinstance(chains, dict) else ():
            # One by one, for the decoder does not say which of several chains it means.
            self._convert(table, Chain, _below("chains", name))
        return self._convert(tables, SettingsFile)

    def refusal(self, path: str, sentence: str) -> SettingsError:
        """Make the error of a key, with secrets taken out of the sentence."""
        shown = f"{path}: {sentence}"
        for value, name in sorted(self._used.items(), key=lambda used: -len(used[0])):
            # Sentences of other rooms cut what they quote; a part of a secret is one too.
            for length in (len(value), 200, 100, 80, 40):
                shown = shown.replace(repr(value[:length])[1:-1], f"${{{name}}}")
                shown = shown.replace(value[:length], f"${{{name}}}")
        return SettingsError(shown)

    def _filled(self, value: Any, path: str) -> Any:
        """Put the environment in, everywhere in a value."""
        if isinstance(value, dict):
            return {key: self._filled(inner, _below(path, key)) for key, inner in value.items()}
        if isinstance(value, list):
            return [self._filled(inner, f"{path}[{n}]") for n, inner in enumerate(value)]
        if not isinstance(value, str):
            return value
        filled = _VARIABLE.sub(lambda found: self._variable(found[1], path), value)
        if "${" in _VARIABLE.sub("", value):
            raise self.refusal(path, "a variable of the environment is written ${NAME}")
        if len(filled) > TEXT_CHARACTERS_MAX:
            raise self.refusal(path, f"expected at most {TEXT_CHARACTERS_MAX} characters")
        return filled

    def _variable(self, name: str, path: str) -> str:
        value = self._environment.get(name, "")
        if not value:
            raise self.refusal(path, f"the environment variable {name} is not set")
        if len(value) >= SECRET_CHARACTERS_MIN:
            self._used[value] = name
        return value

    def _refuse_unknown(self, value: Any, kind: inspect.Type, path: str) -> None:
        for key, inner, inner_kind in _parts(value, kind, path):
            if inner_kind is None:
                known = _known_keys(value, kind)
                raise self.refusal(key, _unknown_sentence(key, known))
            self._refuse_unknown(inner, inner_kind, key)

    def _convert(self, tables: Any, kind: type[T], path: str = "") -> T:
        try:
            return msgspec.convert(tables, kind, dec_hook=_read_own_type)
        except msgspec.ValidationError as error:
            raise self._translated(str(error), path) from None

    def _translated(self, message: str, above: str) -> SettingsError:
        """Turn a decoder's message into ours: the key in front, as the file writes it."""
        found = _AT.fullmatch(message)
        what = _in_words(found["what"] if found else message)
        path = (above + (found["path"] if found else "")).removeprefix(".")
        if what.startswith(_NOT_A_CHOICE):
            what = _choice_sentence(path, what.removeprefix(_NOT_A_CHOICE))
        return self.refusal(path or "the file", what)


def _read_own_type(kind: type, value: Any) -> Any:
    """Tell msgspec how to read spans, secrets and the rule for late money."""
    if not isinstance(value, str):
        message = f"expected a text, found {_FOUND.get(type(value), 'a table or a list')}"
        raise ValueError(message)  # noqa: TRY004 - the decoder adds the key to this type only
    if kind is Secret:
        return Secret(value)
    if kind is Span:
        return parse_span(value)
    message = f"no reader for {kind.__name__}"
    raise NotImplementedError(message)


def settings_paths(kind: inspect.Type, path: str = "") -> Iterator[str]:
    """List the path of every setting that the structs know: what the example has to explain."""
    for struct in _structs(kind):
        for known in struct.fields:
            below = _below(path, known.encode_name)
            inner = list(settings_paths(known.type, below + _marker(known.type)))
            yield from inner or [below]


def _choice_sentence(path: str, found: str) -> str:
    """Say which words a setting takes, by its path with the numbers of lists taken out."""
    shape = re.sub(r"\[\d+\]", "[]", path)
    choices = dict(_choices(inspect.type_info(SettingsFile))).get(shape, [])
    return f"expected one of {', '.join(choices)}, found {found}"


def _choices(kind: inspect.Type, path: str = "") -> Iterator[tuple[str, list[str]]]:
    """List the settings that take one of some words."""
    for struct in _structs(kind):
        for known in struct.fields:
            below = _below(path, known.encode_name)
            words = [str(word) for word in _literals(known.type)]
            if words:
                yield below, words
            yield from _choices(known.type, below + _marker(known.type))


def _literals(kind: inspect.Type) -> Iterator[object]:
    if isinstance(kind, inspect.LiteralType):
        yield from kind.values
    elif isinstance(kind, inspect.UnionType):
        for member in kind.types:
            yield from _literals(member)


def _marker(kind: inspect.Type) -> str:
    return {inspect.ListType: "[]", inspect.DictType: ".*"}.get(type(kind), "")


def _structs(kind: inspect.Type) -> list[inspect.StructType]:
    """Give the tables that may stand where a type is expected."""
    if isinstance(kind, inspect.StructType):
        return [kind]
    if isinstance(kind, inspect.UnionType):
        return [struct for member in kind.types for struct in _structs(member)]
    if isinstance(kind, inspect.ListType):
        return _structs(kind.item_type)
    if isinstance(kind, inspect.DictType):
        return _structs(kind.value_type)
    if isinstance(kind, inspect.Metadata):
        return _structs(kind.type)
    return []


def _parts(
    value: Any, kind: inspect.Type, path: str
) -> Iterator[tuple[str, Any, inspect.Type | None]]:
    """Give every part of a value with the type that it should have; None for an unknown key."""
    if isinstance(kind, inspect.Metadata):
        yield from _parts(value, kind.type, path)
    elif isinstance(kind, inspect.ListType) and isinstance(value, list):
        for number, inner in enumerate(value):
            yield f"{path}[{number}]", inner, kind.item_type
    elif isinstance(kind, inspect.DictType) and isinstance(value, dict):
        for key, inner in value.items():
            yield _below(path, key), inner, kind.value_type
    elif isinstance(value, dict):
        structs = _chosen(value, kind)
        known = {f.encode_name: f.type for s in structs for f in s.fields}
        tags = {s.tag_field for s in structs}
        for key, inner in value.items() if structs else ():
            if key not in tags:
                yield _below(path, key), inner, known.get(key)


def _chosen(value: dict[str, Any], kind: inspect.Type) -> list[inspect.StructType]:
    """Give the table of a tagged union that the value names, else all of them."""
    structs = _structs(kind)
    named = [s for s in structs if s.tag_field and value.get(s.tag_field) == s.tag]
    return named or structs


def _known_keys(value: Any, kind: inspect.Type) -> list[str]:
    chosen = _chosen(value, kind)
    tags = [s.tag_field for s in chosen[:1] if s.tag_field]
    return sorted({f.encode_name for s in chosen for f in s.fields} | set(tags))


def _unknown_sentence(path: str, known: list[str]) -> str:
    key = path.rpartition(".")[2]
    near = difflib.get_close_matches(key, known, n=1)
    if near:
        return f"unknown setting; did you mean {near[0]}?"
    return f"unknown setting; known here are {', '.join(known) or 'none'}"


def _in_words(message: str) -> str:
    """Say a decoder's message in the words of a settings file."""
    for theirs, ours in _WORDS.items():
        message = message.replace(theirs, ours)
    return message[:1].lower() + message[1:]


def _below(path: str, key: str) -> str:
    shown = key if re.fullmatch(r"[A-Za-z0-9_-]+", key) else f'"{key[:80]}"'
    return f"{path}.{shown}" if path else shown
