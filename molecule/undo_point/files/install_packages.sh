#!/bin/sh
# Install empty packages: two that the role "demo" installs, and one of another program that needs one of them.
# $1: "ours" or "theirs".
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT

install_deb() {
  mkdir -p "$folder/$1/DEBIAN"
  printf 'Package: %s\nVersion: 1\nArchitecture: all\nMaintainer: test <test@example.com>\nDepends: %s\nDescription: test\n' \
    "$1" "$2" > "$folder/$1/DEBIAN/control"
  dpkg-deb --build "$folder/$1" "$folder/$1.deb" > /dev/null
  dpkg --install "$folder/$1.deb" > /dev/null
}

install_rpm() {
  printf 'Name: %s\nVersion: 1\nRelease: 1\nSummary: test\nLicense: MIT\nBuildArch: noarch\nRequires: %s\n%%description\ntest\n%%files\n' \
    "$1" "$2" > "$folder/$1.spec"
  rpmbuild --quiet --define "_rpmdir $folder" --define "_topdir $folder/top" -bb "$folder/$1.spec"
  dnf --quiet --assumeyes --disablerepo='*' install "$folder/noarch/$1-1-1.noarch.rpm"
}

kind=deb
if [ ! -s /var/lib/dpkg/status ]; then kind=rpm; fi
if [ "$1" = ours ]; then
  "install_$kind" fullmesh-test-library bash
  "install_$kind" fullmesh-test-tool bash
else
  "install_$kind" theirs-test-application fullmesh-test-library
fi
