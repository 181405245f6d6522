#!/bin/sh
# packages.sh ROOT: what an EL server has from its installer (SELinux's tools, firewalld), from the signed repository.
set -eu
chroot "$1" dnf -y -q install chrony firewalld libselinux-utils policycoreutils policycoreutils-python-utils \
  selinux-policy-targeted
chroot "$1" dnf clean all -q
rm -rf "$1"/var/cache/dnf "$1"/var/log/dnf*
chroot "$1" systemctl enable firewalld.service
