"""Find secrets in texts: keys, passwords, tokens, hashes of passwords."""

from __future__ import annotations

import re
from collections.abc import Callable

REMOVED = "[removed]"
SECRET_PARTS = frozenset(
    {
        *("password", "passwd", "passphrase", "pwd", "secret", "token", "apikey"),
        *("credential", "credentials", "cookie", "psk"),
    }
)
SECRET_ENDINGS = (
    *("api_key", "access_key", "private_key", "secret_key", "auth_key", "authkey", "ssh_key"),
    *("host_key", "session_key", "become_pass", "ssh_pass", "sudo_pass", "access_key_id"),
)
# The value of such a setting is a place or a number, not the secret.
HARMLESS_ENDINGS = (
    *("file", "path", "folder", "dir", "length", "count", "type", "name"),
    *("lifetime", "seconds", "command"),
)
HARMLESS_VALUES = frozenset({"", "true", "false", "yes", "no", "none", "null", "omit", REMOVED})
CAMEL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
LEAST_LEARNED = 4  # characters of a secret that is removed wherever it is

# Texts that are secrets wherever they are.
WHOLE = tuple(
    re.compile(pattern, re.DOTALL)
    for pattern in (
        r"-----BEGIN [A-Z0-9 ]{3,40}-----.*?(?:-----END [A-Z0-9 ]{3,40}-----|\Z)",
        r"\A(?:(?!-----BEGIN ).){0,20000}-----END [A-Z0-9 ]{0,30}KEY-----",  # the beginning was cut off
        r"\$ANSIBLE_VAULT;[^\n]*(?:\n\s*[0-9a-f]{8,})*",
        r"\$(?:1|5|6|7|y|gy|2[abxy]|argon2\w{1,2}|scrypt)\$[\w./$=,+-]{8,}",
        r"(?<![A-Za-z0-9+/])AAAA(?:[BCE]3|[A-Z]2)[A-Za-z0-9+/]{40,}={0,2}",  # a key in SSH's format
        r"SHA256:[A-Za-z0-9+/]{43}=?",
        r"MD5:(?:[0-9a-f]{2}:){15}[0-9a-f]{2}",
        r"(?<![A-Za-z0-9])(?:gh[oprsu]_|github_pat_|glpat-|hf_|nvapi-|xox[abprs]-|sk-|pypi-|dckr_pat_)[\w-]{16,}",
        r"(?<![A-Z0-9])(?:AKIA|ASIA)[A-Z0-9]{16}(?![A-Z0-9])",
        r"(?<![A-Za-z0-9])AIza[\w-]{35}",
        r"(?<![A-Za-z0-9])eyJ[\w-]{8,}\.[\w-]{8,}\.[\w-]*",
    )
)
AUTHORIZATION = re.compile(r"(?i)\b(bearer|basic|digest|negotiate)(\s+)([\w.~+/=-]{8,})")
USERINFO = re.compile(r"(?<=://)[^\s/@:'\"]*:[^\s/@'\"]+(?=@)")
# key = value, "key": "value", key: value, --key value
SETTING = re.compile(
    r"""(?P<key>[\w.-]{2,80})(?P<sign>\\?["']?[ \t]{0,4}(?:[:=]|=>)[ \t]{0,4}|(?<=\w)[ \t]{1,4})"""
    r"""(?P<value>\\?"(?:[^"\\\n]|\\.)*"|'(?:[^'\\\n]|\\.)*'|[^\s,;&"'{}\[\]<>]+)"""
)
# The first line of a block of YAML. The indented lines below it are the value.
BLOCK_START = re.compile(
    r"[ \t-]{0,100}(?P<key>[\w.-]{2,80}):[ \t]{0,100}[|>][-+0-9]{0,3}[ \t]{0,100}"
)
HINT = re.compile(r"(?i)pass|pwd|secret|token|key|credential|cookie|psk")


def is_secret_name(key: str) -> bool:
    """Return whether a setting of this name holds a secret."""
    if not HINT.search(key):
        return False
    words = [one for one in re.split(r"[._-]+", CAMEL.sub("_", key).lower()) if one]
    if not words or words[-1] in HARMLESS_ENDINGS:
        return False
    joined = "_".join(words)
    return not SECRET_PARTS.isdisjoint(words) or joined.endswith(SECRET_ENDINGS)


def is_harmless_value(key: str, value: str) -> bool:
    """Return whether the value of a setting with a secret's name is none."""
    text = value.lower()
    if text in HARMLESS_VALUES or text.startswith(("{{", "$(", "${")):
        return True
    return "key" in key.lower() and text.startswith(("/", "~", "./"))


def strip_quotes(value: str) -> str:
    """Return a value without its quotation marks."""
    text = value.removeprefix("\\")
    if len(text) > 1 and text[0] in "\"'" and text[-1] == text[0]:
        text = text[1:-1].removesuffix("\\")
    return text


def remove_secrets(text: str, learn: Callable[[str], None]) -> str:
    """Replace each secret with a mark, and return those that may also occur elsewhere."""

    def learn_value(value: str) -> None:
        if len(value) >= LEAST_LEARNED and value != REMOVED:
            learn(value)

    def take_whole(found: re.Match[str]) -> str:
        learn_value(found[0])
        return REMOVED

    def take_authorization(found: re.Match[str]) -> str:
        if not re.search(r"[\d=+/]|[a-z][A-Z]", found[3]):
            return found[0]  # "basic knowledge"
        learn_value(found[3])
        return f"{found[1]}{found[2]}{REMOVED}"

    def take_userinfo(found: re.Match[str]) -> str:
        learn_value(found[0].partition(":")[2])
        return REMOVED

    def take_setting(found: re.Match[str]) -> str:
        key, sign, value = found["key"], found["sign"], found["value"]
        inner = strip_quotes(value)
        is_sentence = not sign.strip() and not key.startswith("--")  # "the token is"
        if is_sentence or not is_secret_name(key) or is_harmless_value(key, inner):
            return found[0]
        learn_value(inner)
        quote = value[: len(value) - len(value.lstrip("\\\"'"))] if inner != value else ""
        return f"{key}{sign}{quote}{REMOVED}{quote}"

    for pattern in WHOLE:
        text = pattern.sub(take_whole, text)
    text = USERINFO.sub(take_userinfo, text)
    text = AUTHORIZATION.sub(take_authorization, text)
    if HINT.search(text):
        text = replace_blocks(text, learn_value)
        text = replace_settings(text, take_setting)
    return text


def replace_blocks(text: str, keep: Callable[[str], object]) -> str:
    """Replace the values of secrets in blocks of YAML. *keep* gets each line of them."""
    lines: list[str] = []
    secret = False
    for line in text.split("\n"):
        inside = secret and line.startswith((" ", "\t")) and bool(line.strip())
        if inside:
            keep(line.strip())
        if not inside or lines[-1].strip() != REMOVED:
            lines.append(f"  {REMOVED}" if inside else line)
        found = None if inside else BLOCK_START.fullmatch(line)
        secret = inside or (found is not None and is_secret_name(found["key"]))
    return "\n".join(lines)


def replace_settings(text: str, take: Callable[[re.Match[str]], str]) -> str:
    """Replace settings. The value of an ordinary setting may be a setting itself (``cmd: password=x``)."""
    parts, at = [], 0
    while found := SETTING.search(text, at):
        new = take(found)
        end = found.end() if new != found[0] else found.start("value")
        parts.append(text[at : found.start()])
        parts.append(new if new != found[0] else text[found.start() : end])
        at = end
    return "".join([*parts, text[at:]])
