"""The configuration of the next boot, read from files: sysctl.d, systemd, fstab, nft, the boot loader."""

from __future__ import annotations

from fnmatch import fnmatch
from pathlib import Path

import pytest
from ansible.module_utils.fullmesh.facts.sysctl import SysctlNode
from ansible.module_utils.fullmesh.survey import boot_files


class Disk:
    """Files by their paths."""

    def __init__(self, files: dict[str, str]) -> None:
        self.files = files

    def read(self, path: str) -> str:
        return self.files.get(path, "")

    def listed(self, pattern: str) -> list[str]:
        return sorted(path for path in self.files if fnmatch(path, pattern))


# --- kernel settings: each line was compared with what systemd-sysctl 252 does


def value(key: str, *texts: str) -> str:
    rows = [(f"{index}.conf", text) for index, text in enumerate(texts)]
    return boot_files.find_boot_setting(key, boot_files.parse_sysctl_files(rows))[0]


def test_the_last_file_has_precedence() -> None:
    assert value("net.core.somaxconn", "net.core.somaxconn = 1", "net/core/somaxconn=2") == "2"


def test_the_setting_file_is_reported() -> None:
    rows = [("a.conf", "vm.swappiness=1"), ("b.conf", "vm.other=2")]
    assert boot_files.find_boot_setting("vm.swappiness", boot_files.parse_sysctl_files(rows)) == (
        "1",
        "a.conf",
    )
    assert boot_files.find_boot_setting("vm.absent", boot_files.parse_sysctl_files(rows)) == (
        "",
        "",
    )


def test_a_name_wins_over_patterns_in_any_order() -> None:
    text = "net.ipv4.conf.all.rp_filter=1\nnet.ipv4.conf.*.rp_filter=2\n"
    assert value("net.ipv4.conf.all.rp_filter", text) == "1"
    assert value("net.ipv4.conf.eth0.rp_filter", text) == "2"


def test_the_last_pattern_wins_and_repeats_keep_their_position() -> None:
    patterns = "net.ipv4.conf.*.rp_filter=1\nnet.ipv4.conf.e*.rp_filter=2\n"
    assert value("net.ipv4.conf.eth0.rp_filter", patterns) == "2"
    again = "net.ipv4.conf.*.rp_filter=1\n"
    assert value("net.ipv4.conf.eth0.rp_filter", patterns + again) == "2"
    other = "net.ipv4.conf.*.rp_filter=0\n"
    assert value("net.ipv4.conf.eth0.rp_filter", patterns + other) == "0"


def test_a_star_stays_between_two_dots() -> None:
    assert value("net.ipv4.conf.all.rp_filter", "net.ipv4.*=7") == ""
    assert value("net.ipv4.tcp_mtu_probing", "net.ipv4.*=7") == "7"


def test_a_leading_dash_excludes_keys_from_patterns() -> None:
    assert value("net.core.somaxconn", "-net.core.somaxconn=9") == "9"
    without = "net.ipv4.conf.*.rp_filter=2\n-net.ipv4.conf.all.rp_filter\n"
    assert value("net.ipv4.conf.all.rp_filter", without) == ""
    assert value("net.ipv4.conf.eth0.rp_filter", without) == "2"


def test_dots_in_a_nic_name_are_slashes_in_a_dotted_key() -> None:
    assert value("net.ipv4.conf.eth0/5.rp_filter", "net/ipv4/conf/eth0.5/rp_filter=1") == "1"


@pytest.mark.parametrize(
    "line", ["# net.core.somaxconn=1", "; net.core.somaxconn=1", "net.core.somaxconn", ""]
)
def test_an_invalid_line_sets_nothing(line: str) -> None:
    assert value("net.core.somaxconn", line) == ""


def test_the_file_in_etc_hides_others_of_its_name(
    tmp_path: Path,
) -> None:
    for path in ("usr/lib/sysctl.d/50-a.conf", "etc/sysctl.d/50-a.conf", "run/sysctl.d/60-b.conf",
                 "usr/lib/sysctl.d/70-masked.conf", "etc/sysctl.conf", "etc/sysctl.d/README"):  # fmt: skip
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text("")
    (tmp_path / "etc/sysctl.d/70-masked.conf").symlink_to("/dev/null")
    node = SysctlNode(str(tmp_path))
    read = ["/etc/sysctl.d/50-a.conf", "/run/sysctl.d/60-b.conf", "/etc/sysctl.d/70-masked.conf"]
    assert node.boot_files() == read
    assert node.conf_files() == [*read, "/etc/sysctl.conf"]


TUNED = {
    "/etc/tuned/active_profile": "hpc\n",
    "/etc/tuned/hpc/tuned.conf": "[main]\ninclude=base\n[sysctl]\nvm.swappiness=10\n# kernel.no=1\n",
    "/usr/lib/tuned/base/tuned.conf": "[sysctl]\nnet.core.busy_read=50\n[vm]\nx=y\n[main]\ninclude=hpc\n",
}


def test_tuned_settings_include_parent_profiles() -> None:
    made = Disk(TUNED)
    assert boot_files.find_tuned_keys(made.read, made.listed) == [
        "net.core.busy_read",
        "vm.swappiness",
    ]
    assert boot_files.find_tuned_keys(Disk({}).read, Disk({}).listed) == []


# --- systemd


def test_the_hard_limit_counts_in_bytes() -> None:
    text = "[Manager]\n#DefaultLimitNOFILE=1\nDefaultLimitMEMLOCK=8M:64M\nDefaultLimitNOFILE = 1024:524288\n"
    assert boot_files.parse_manager_limits(text) == {
        "DefaultLimitMEMLOCK": str(64 << 20),
        "DefaultLimitNOFILE": "524288",
    }
    assert boot_files.parse_manager_limits("DefaultLimitMEMLOCK=infinity") == {
        "DefaultLimitMEMLOCK": "infinity"
    }


def test_drop_ins_are_read_by_name_and_etc_wins() -> None:
    made = Disk(
        {
            "/etc/systemd/system.conf.d/20-b.conf": "",
            "/usr/lib/systemd/system.conf.d/10-a.conf": "",
            "/usr/lib/systemd/system.conf.d/20-b.conf": "",
            "/run/systemd/system.conf.d/30-c.conf": "",
        }
    )
    assert boot_files.list_system_drop_ins(made.listed) == [
        "/usr/lib/systemd/system.conf.d/10-a.conf",
        "/etc/systemd/system.conf.d/20-b.conf",
        "/run/systemd/system.conf.d/30-c.conf",
    ]


# --- addresses


@pytest.mark.parametrize(
    "text",
    [
        "[ipv4]\nmethod=auto\n",
        "[Network]\nDHCP=yes\n",
        'DEVICE=eth1\nBOOTPROTO="dhcp"\n',
        "iface eth1 inet dhcp\n",
        "  eth1: {dhcp4: true}\n",
        "  eth1:\n    dhcp6: yes\n",
    ],
)
def test_files_with_dhcp_are_found(text: str) -> None:
    assert boot_files.needs_address_lease(text)


@pytest.mark.parametrize(
    "text",
    [
        "[ipv4]\nmethod=manual\n",
        "DHCP=no\n",
        "BOOTPROTO=none\n",
        "iface eth1 inet static\n",
        "dhcp4: false\n",
    ],
)
def test_files_without_settings(text: str) -> None:
    assert not boot_files.needs_address_lease(text)


MAC = "52:54:00:AB:cd:01"


@pytest.mark.parametrize(
    "text",
    [
        "DEVICE=eth1\n",
        "[Match]\nMACAddress=52:54:00:ab:CD:01\n",
        "[Match]\nName=en* eth*\n",
        "[Match]\nType=ether\n",
        "ethernets:\n  all:\n    match: {driver: mlx5_core}\n",
        "[connection]\nid=any\ntype=ethernet\n",
    ],
)
def test_files_that_may_be_about_a_card(text: str) -> None:
    assert boot_files.is_about_interface(text, "eth1", MAC)


@pytest.mark.parametrize(
    "text", ["DEVICE=eth10\n", "[connection]\ninterface-name=eth0\n", "iface veth1 inet dhcp\n"]
)
def test_files_about_another(text: str) -> None:
    assert not boot_files.is_about_interface(text, "eth1", MAC)


# --- packet filter


def test_tables_of_a_file_and_its_includes() -> None:
    made = Disk(
        {
            "/etc/nftables.conf": "#!/usr/sbin/nft -f\nflush ruleset\n# table inet old {\ntable inet filter {\n}\n"
            'add table nat\ninclude "/etc/nftables.d/*.nft"\n',
            "/etc/nftables.d/a.nft": "table ip6 more { chain c { policy drop; } }\n",
        }
    )
    text = boot_files.read_nft_file("/etc/nftables.conf", made.read, made.listed)
    assert boot_files.parse_nft_tables(text) == ["inet filter", "ip nat", "ip6 more"]
    assert boot_files.has_nft_drops(text)
    assert not boot_files.has_nft_drops("table inet filter { chain c { policy accept; } }")
    assert not boot_files.has_nft_drops(
        boot_files.read_nft_file("x", {"x": "# drop\n"}.__getitem__, made.listed)
    )


# --- mounts

NOW = "tmpfs /dev/shm tmpfs rw,nosuid,size=1024k 0 0\nstore:/data /my\\040data nfs4 rw 0 0\nshort\n"


def test_a_line_of_mounts() -> None:
    found = [boot_files.parse_mount(line) for line in NOW.splitlines()]
    assert found == [
        {"point": "/dev/shm", "kind": "tmpfs", "what": "tmpfs", "size": 1 << 20},  # noqa: S108
        {"point": "/my data", "kind": "nfs4", "what": "store:/data", "size": 0},
        None,
    ]


@pytest.mark.parametrize(
    ("options", "size"), [("size=2g", 2 << 30), ("rw,size=50%", 0), ("blocksize=8", 0), ("", 0)]
)
def test_the_size_of_a_tmpfs(options: str, size: int) -> None:
    assert boot_files.parse_tmpfs_size(options) == size


@pytest.mark.parametrize(
    ("options", "waits"),
    [
        ("defaults", True),
        ("rw,nofail", False),
        ("noauto", False),
        ("x-systemd.automount", False),
        ("_netdev", True),
    ],
)
def test_the_boot_waits_for_a_strict_fstab_line(options: str, waits: bool) -> None:
    made = Disk({})
    text = f"# comment /x nfs defaults\nstore:/data /my\\040data nfs4 {options} 0 0\n/swap none swap sw 0 0\n"
    (found,) = boot_files.find_boot_mounts(text, NOW, made.read, made.listed)
    assert (found["point"], found["waits"], found["mounted"]) == ("/my data", waits, True)


def test_mount_units_count_and_masked_ones_do_not() -> None:
    made = Disk(
        {
            "/etc/systemd/system/data.mount": "[Mount]\nWhat=store:/data\nWhere=/data\nType=nfs\n",
            "/etc/systemd/system/tmp.mount": "",
        }
    )
    (found,) = boot_files.find_boot_mounts("", NOW, made.read, made.listed)
    assert (found["point"], found["source"], found["mounted"]) == (
        "/data",
        "/etc/systemd/system/data.mount",
        False,
    )


# --- kernel


def test_the_mode_of_selinux_is_the_last_one() -> None:
    assert (
        boot_files.parse_selinux_mode(
            "# SELINUX=disabled\nSELINUX=permissive\nSELINUXTYPE=targeted\n"
        )
        == "permissive"
    )
    assert boot_files.parse_selinux_mode("SELINUXTYPE=targeted\n") == ""


def entry(version: str, options: str = "root=/dev/vda1 $kernelopts") -> str:
    return f"title X\nversion {version}\nlinux /vmlinuz-{version}\noptions {options}\n"


OLD, NEW, RESCUE = ("/boot/loader/entries/id-5.14.0-9.el9.conf", "/boot/loader/entries/id-5.14.0-10.el9.conf",
                    "/boot/loader/entries/id-0-rescue.conf")  # fmt: skip
ENTRIES = {OLD: entry("5.14.0-9.el9"), NEW: entry("5.14.0-10.el9"), RESCUE: entry("0-rescue")}


@pytest.mark.parametrize(
    ("saved", "version"),
    [("id-5.14.0-9.el9", "5.14.0-9.el9"), ("id-gone", "5.14.0-10.el9"), ("", "5.14.0-10.el9")],
)
def test_the_saved_entry_boots_else_the_newest(saved: str, version: str) -> None:
    made = Disk(
        {**ENTRIES, "/boot/grub2/grubenv": f"saved_entry={saved}\nkernelopts=ro iommu=pt\n"}
    )
    found = boot_files.find_next_boot_entry(made.read, made.listed)
    assert found
    assert (found["version"], found["arguments"].split()) == (
        version,
        ["root=/dev/vda1", "ro", "iommu=pt"],
    )


MENU = """
menuentry 'Ubuntu' {
	linux	/boot/vmlinuz-6.8.0-50-generic root=UUID=1 ro  quiet $vt_handoff
}
menuentry 'older' {
	linux	/boot/vmlinuz-6.8.0-45-generic root=UUID=1 ro
}
"""


def test_of_grubs_menu_the_first_entry_boots() -> None:
    made = Disk({"/boot/grub/grub.cfg": MENU, "/etc/default/grub": 'GRUB_DEFAULT="0"\n'})
    found = boot_files.find_next_boot_entry(made.read, made.listed)
    assert found
    assert (found["version"], found["arguments"]) == ("6.8.0-50-generic", "root=UUID=1 ro quiet")


@pytest.mark.parametrize(
    "files", [{}, {"/boot/grub/grub.cfg": MENU, "/etc/default/grub": "GRUB_DEFAULT=saved\n"}]
)
def test_what_boots_is_not_guessed(files: dict[str, str]) -> None:
    made = Disk(files)
    assert boot_files.find_next_boot_entry(made.read, made.listed) is None
