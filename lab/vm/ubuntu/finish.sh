#!/bin/sh
# finish.sh ROOT: the ssh interface as cloud-init leaves it.
set -eu
root=$1
rm -rf "$root"/etc/netplan/*
install -d -m 755 "$root/etc/netplan"
printf 'network:\n  version: 2\n  ethernets:\n    eth0:\n      dhcp4: true\n' > "$root/etc/netplan/50-cloud-init.yaml"
chmod 600 "$root/etc/netplan/50-cloud-init.yaml"
