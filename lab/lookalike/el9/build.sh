#!/bin/sh
# build.sh HERE: turn the Debian root into an EL-like one; nothing of apt or dpkg is left.
set -eu
here=$1

purge_programs() {
  # shellcheck disable=SC2046  # one argument per package is wanted
  dpkg --force-depends --purge $(grep -v '^#' "$here/packages/el-purge.list")
  rm -rf /etc/NetworkManager /etc/firewalld /etc/chrony* /etc/selinux /var/lib/selinux /var/lib/NetworkManager
  userdel _chrony 2>/dev/null || :
}

remove_debian() {
  rm -rf /var/lib/apt /var/cache/apt /etc/apt /etc/debian_version /usr/sbin/policy-rc.d \
    /usr/bin/apt* /usr/bin/dpkg* /usr/sbin/dpkg* /usr/lib/apt /usr/lib/dpkg /var/lib/dpkg /etc/dpkg \
    /usr/sbin/update-rc.d /usr/bin/deb-systemd* /usr/sbin/invoke-rc.d
  # systemd would make an ssh.service out of the init script, next to sshd.service, on the same port
  rm -rf /etc/init.d /etc/rc?.d
  # EL does not mark its Python as externally managed
  rm -f /usr/lib/python3*/EXTERNALLY-MANAGED
}

dress_as_el() {
  cp -a "$here/lookalike/el9/root/." /
  ln -sf ../usr/lib/os-release /etc/os-release
  ln -sf centos-release /etc/redhat-release
  ln -sf centos-release /etc/system-release
  if [ -e /usr/bin/dnf-3 ]; then
    ln -sf dnf-3 /usr/bin/dnf
    ln -sf dnf-3 /usr/bin/yum
  fi
  mkdir -p /etc/sysconfig/network-scripts /usr/libexec
  ln -sf /usr/bin/python3 /usr/libexec/platform-python
  # EL's name for the unit, as a unit of its own: service facts list it
  mv /lib/systemd/system/ssh.service /lib/systemd/system/sshd.service
  rm -f /etc/systemd/system/multi-user.target.wants/ssh.service /etc/systemd/system/ssh*.service \
    /lib/systemd/system/ssh.socket
  sed -i 's/^Alias=.*//' /lib/systemd/system/sshd.service
  systemctl enable sshd.service
  systemctl disable systemd-networkd.service 2>/dev/null || :
  sed -i 's/^hosts:.*/hosts:          files dns myhostname/' /etc/nsswitch.conf
  : > /etc/resolv.conf 2>/dev/null || :
  groupadd -rf wheel
  useradd -m -s /bin/bash -G wheel ec2-user
  echo '%wheel ALL=(ALL) NOPASSWD: ALL' > /etc/sudoers.d/wheel
  ldconfig
}

purge_programs
remove_debian
dress_as_el
