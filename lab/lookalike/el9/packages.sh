#!/bin/sh
# packages.sh: give the node its rpm database and, through dnf, the NetworkManager that every EL box has.
set -eu
rpm --initdb
rpm --import /srv/repo/RPM-GPG-KEY-lab
dnf -y -q install --releasever=9 bash ca-certificates centos-stream-release dnf iproute nftables \
  openssh-server procps-ng python3 python3-dnf-plugins-core python3-libselinux python3.11 python3.11-pip sudo systemd NetworkManager
dnf clean all -q
rm -rf /var/cache/dnf /var/log/dnf*
# eth0 belongs to podman: only eth1 is NetworkManager's, and not before a profile for it exists
mkdir -p /etc/NetworkManager/conf.d
printf '[main]\nno-auto-default=*\n[keyfile]\nunmanaged-devices=interface-name:eth0\n' \
  > /etc/NetworkManager/conf.d/10-lab.conf
systemctl enable NetworkManager.service
