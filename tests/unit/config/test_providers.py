"""Values from files, directories and the environment, and those that must not be read."""

from pathlib import Path

import pytest

from config.errors import ConfigError
from config.load import Loaded, load

PACKAGE = "org.apache.kafka.common.config.provider."
SECRET = "marked-secret"


@pytest.fixture
def secrets(tmp_path: Path) -> Path:
    (tmp_path / "one.properties").write_text(f"key.password={SECRET}\nport=0\nempty=\na\\:b=c\n")
    (tmp_path / "whole").write_text(f"{SECRET}\n")
    (tmp_path / "dir").mkdir()
    return tmp_path


def read(*lines: str, environment: dict[str, str] | None = None) -> Loaded:
    return load(set_values=lines, environment=environment)


def provider(name: str, kind: str) -> list[str]:
    of_class = f"config.providers.{name}.class={PACKAGE}{kind}ConfigProvider"
    return [f"config.providers={name}", of_class]


def allowed(name: str, path: object) -> str:
    return f"config.providers.{name}.param.allowed.paths={path}"


def test_a_key_of_a_properties_file(secrets: Path) -> None:
    file = secrets / "one.properties"
    given = read(
        *provider("file", "File"),
        f"ssl.key.password=${{file:{file}:key.password}}",
        f"super.users=User:${{file:{file}:port}};User:x${{file:{file}:empty}}",
    )
    assert given.config.ssl_key_password == SECRET
    assert given.config.super_principals == {"User:0", "User:x"}
    assert given.warnings == ()
    assert given.without_effect == ()


def test_a_file_of_a_directory_without_its_line_end(secrets: Path) -> None:
    given = read(*provider("dir", "Directory"), f"ssl.key.password=${{dir:{secrets}:whole}}")
    assert given.config.ssl_key_password == SECRET


def test_a_variable_of_the_environment() -> None:
    lines = [*provider("env", "EnvVar"), "ssl.key.password=${env:MARKED}"]
    assert read(*lines, environment={"MARKED": SECRET}).config.ssl_key_password == SECRET
    lines.append("config.providers.env.param.allowlist.pattern=MARK")
    with pytest.raises(ConfigError, match="names nothing"):
        read(*lines, environment={"MARKED": SECRET})


def test_several_providers_and_texts_of_none(secrets: Path) -> None:
    lines = [
        "config.providers=file, env",
        f"config.providers.file.class={PACKAGE}FileConfigProvider",
        f"config.providers.env.class={PACKAGE}EnvVarConfigProvider",
        f"ssl.key.password=a${{env:A}}b${{file:{secrets / 'one.properties'}:a:b}}${{other:x}}$c",
    ]
    assert read(*lines, environment={"A": "1"}).config.ssl_key_password == "a1bc${other:x}$c"


def test_a_variable_is_replaced_once(secrets: Path) -> None:
    lines = [*provider("env", "EnvVar"), "ssl.key.password=${env:A}"]
    given = read(*lines, environment={"A": "${env:B}", "B": SECRET})
    assert given.config.ssl_key_password == "${env:B}"


@pytest.mark.parametrize(
    "variable",
    [
        "${dir:DIR:nothing}",
        "${dir:DIR:../whole}",
        "${dir:DIR/dir:..}",
        "${dir:DIR:dir}",
        "${dir:DIR:}",
        "${dir:whole}",
        "${dir:/nowhere:whole}",
    ],
)
def test_what_is_no_file_of_a_directory_is_refused(secrets: Path, variable: str) -> None:
    text = variable.replace("DIR", str(secrets))
    with pytest.raises(ConfigError, match="names nothing") as caught:
        read(*provider("dir", "Directory"), f"ssl.key.password={text}")
    assert caught.value.key == "ssl.key.password"


def test_only_allowed_paths_are_read_whatever_leads_there(secrets: Path) -> None:
    (secrets / "dir" / "link").symlink_to(secrets / "whole")
    (secrets / "dir-beside").mkdir()
    (secrets / "dir-beside" / "file").write_text("x")
    (secrets / "dir" / "file").write_text("x")
    lines = [*provider("dir", "Directory"), allowed("dir", secrets / "dir")]
    given = read(*lines, f"ssl.key.password=${{dir:{secrets / 'dir'}:file}}")
    assert given.config.ssl_key_password == "x"
    for path, key in (
        (secrets, "whole"),
        (secrets / "dir", "link"),
        (secrets / "dir-beside", "file"),
        (f"{secrets}/dir/..", "whole"),
    ):
        with pytest.raises(ConfigError, match="names nothing"):
            read(*lines, f"ssl.key.password=${{dir:{path}:{key}}}")
    lines = [*provider("file", "File"), allowed("file", secrets / "dir")]
    with pytest.raises(ConfigError, match="names nothing"):
        read(*lines, f"ssl.key.password=${{file:{secrets / 'one.properties'}:port}}")


@pytest.mark.parametrize(
    ("lines", "said"),
    [
        (
            ["config.providers=vault"],
            r"config\.providers\.vault\.class=\(not set\).*no Java class",
        ),
        (
            ["config.providers=v", "config.providers.v.class=com.Vault"],
            "com.Vault.*FileConfigProvider",
        ),
        ([*provider("file", "File"), allowed("file", "secrets")], "not absolute"),
        (
            [*provider("e", "EnvVar"), "config.providers.e.param.allowlist.pattern=("],
            "expression",
        ),
        (
            [*provider("file", "File"), "ssl.key.password=${file:/nowhere/x:a}"],
            "/nowhere/x cannot be",
        ),
        ([*provider("file", "File"), "ssl.key.password=${file:a}"], "names nothing"),
    ],
)
def test_what_cannot_be_read_is_refused_with_its_reason(lines: list[str], said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        read(*lines)


def test_an_error_shows_the_variable_and_not_its_value(secrets: Path) -> None:
    variable = f"${{file:{secrets / 'one.properties'}:key.password}}"
    for key in ("num.partitions", "listeners", "super.users", "ssl.client.auth"):
        with pytest.raises(ConfigError) as caught:
            read(*provider("file", "File"), f"{key}={variable}")
        assert SECRET not in str(caught.value)
        assert key in str(caught.value)


def test_a_variable_without_a_provider_is_text_and_a_warning() -> None:
    given = read("ssl.key.password=${file:/run/x:y}", "ssl.keystore.password=$x${y}")
    assert given.config.ssl_key_password == "${file:/run/x:y}"
    (warning,) = given.warnings
    assert warning.startswith("--set: ssl.key.password has a variable")


def test_a_value_that_is_set_at_run_time_has_no_variables(secrets: Path) -> None:
    """A client would choose which file the broker reads, and DescribeConfigs show it."""
    given = read(*provider("file", "File"))
    name = "listener.name.x.ssl.keystore.location"
    with pytest.raises(ConfigError, match="only in values that are set at start"):
        given.with_dynamic({name: f"${{file:{secrets / 'one.properties'}:key.password}}"})
    assert name in given.with_dynamic({name: "${other:x}"}).settings


def test_parameters_of_providers_are_known_and_other_names_are_not() -> None:
    with pytest.raises(ConfigError, match="no such key"):
        read("config.providers.file.klass=x")
