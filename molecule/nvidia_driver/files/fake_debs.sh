#!/bin/bash
# Builds empty packages with the names of the driver's, in a repository on this node: fake_debs.sh NAME...
set -eu
mkdir -p /srv/fake-nvidia
cd /srv/fake-nvidia
for name in "$@"; do
  mkdir -p "$name/DEBIAN"
  case $name in *535*) version=535.216.03-0fake1 ;; *) version=580.95.05-0fake1 ;; esac
  printf 'Package: %s\nVersion: %s\nArchitecture: all\nMaintainer: test\nDescription: a fake\n' \
    "$name" "$version" > "$name/DEBIAN/control"
  unit=""
  case $name in
    nvidia-driver-*) unit=nvidia-persistenced ;;
    nvidia-fabricmanager-*) unit=nvidia-fabricmanager ;;
  esac
  # as with Ubuntu's packages, the branches conflict with each other
  case $name in
    nvidia-driver-*) printf 'Provides: %s\nConflicts: %s\nReplaces: %s\n' fake-any-driver fake-any-driver fake-any-driver ;;
    linux-modules-*) printf 'Provides: %s\nConflicts: %s\nReplaces: %s\n' fake-any-modules fake-any-modules fake-any-modules ;;
  esac >> "$name/DEBIAN/control"
  if [ -n "$unit" ]; then
    mkdir -p "$name/usr/lib/systemd/system"
    printf '[Unit]\nDescription=a fake\n[Service]\nExecStart=/bin/true\n[Install]\nWantedBy=multi-user.target\n' \
      > "$name/usr/lib/systemd/system/$unit.service"
  fi
  dpkg-deb --root-owner-group -b "$name" "$name.deb" > /dev/null
  sum=$(sha256sum "$name.deb")
  {
    cat "$name/DEBIAN/control"
    printf 'Filename: ./%s.deb\nSize: %s\nSHA256: %s\n\n' "$name" "$(stat -c %s "$name.deb")" "${sum%% *}"
  } >> Packages
done
