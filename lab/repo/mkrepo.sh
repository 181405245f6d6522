#!/bin/bash
# mkrepo.sh: runs in the builder image and fills /out with six signed repositories.
#   /lab  this folder        /in/nccl/N/{libnccl.so.2,nccl.h,VERSION}   /out  the result
set -euo pipefail

prepare() {
  export GNUPGHOME=/tmp/gpg
  mkdir -m 700 "$GNUPGHOME"
  mkdir -p /out/el9/x86_64 /out/cuda-rhel9/x86_64 /out/ubuntu-main /out/cuda-ubuntu2404/x86_64 \
    /out/libnvidia-container/rpm/x86_64 /out/libnvidia-container/deb/amd64
  gpg --batch --quiet --passphrase '' --quick-generate-key 'Fullmesh Lab <lab@example.invalid>' rsa3072 sign never
  gpg --armor --export > /out/RPM-GPG-KEY-lab
  gpg --export > /out/lab-archive-keyring.gpg
  apt-get update -q
}

nccl_debs() {
  # $1: folder with the library, $2: package version, $3: library version; NVIDIA's package names
  local run=/tmp/deb/$2/libnccl2 dev=/tmp/deb/$2/libnccl-dev lib=usr/lib/x86_64-linux-gnu
  mkdir -p "$run/DEBIAN" "$dev/DEBIAN" "$run/$lib" "$dev/$lib" "$dev/usr/include"
  cp "$1/libnccl.so.2" "$run/$lib/libnccl.so.$3"
  ln -s "libnccl.so.$3" "$run/$lib/libnccl.so.2"
  ln -s libnccl.so.2 "$dev/$lib/libnccl.so"
  cp "$1/nccl.h" "$dev/usr/include/"
  printf 'activate-noawait ldconfig\n' > "$run/DEBIAN/triggers"
  local head="Version: $2\nArchitecture: amd64\nMaintainer: Fullmesh Lab <lab@example.invalid>\n"
  # shellcheck disable=SC2059  # the line breaks in $head are meant to be read
  printf "Package: libnccl2\n${head}Section: libs\nDepends: libc6\nDescription: NCCL, device code zeroed (lab)\n" \
    > "$run/DEBIAN/control"
  # shellcheck disable=SC2059
  printf "Package: libnccl-dev\n${head}Section: libdevel\nDepends: libnccl2 (= $2)\nDescription: NCCL header (lab)\n" \
    > "$dev/DEBIAN/control"
  local name
  for name in libnccl2 libnccl-dev; do
    dpkg-deb --root-owner-group -Zzstd -z3 --build "/tmp/deb/$2/$name" \
      "/out/cuda-ubuntu2404/x86_64/${name}_$2_amd64.deb"
  done
  rm -rf "/tmp/deb/$2"
}

nccl_rpms() {
  python3 /lab/deb2rpm.py /out/cuda-rhel9/x86_64 << LIST
libnccl | $2 | | | mkdir -p usr/lib64; cp $1/libnccl.so.2 usr/lib64/libnccl.so.$3; ln -s libnccl.so.$3 usr/lib64/libnccl.so.2; chmod 755 usr/lib64/libnccl.so.$3
libnccl-devel | $2 | | libnccl = $2 | mkdir -p usr/lib64 usr/include; ln -s libnccl.so.2 usr/lib64/libnccl.so; cp $1/nccl.h usr/include/
LIST
}

# FAKES: NVIDIA's names, versions, module and streams (as of its repository for RHEL 9), and nothing of a driver in them.
driver_rpms() {
  local branch version unit='mkdir -p usr/lib/systemd/system; printf "[Unit]\nDescription=a fake\n[Service]\nExecStart=/bin/true\n[Install]\nWantedBy=multi-user.target\n" >'
  for branch in 535 580; do
    case $branch in 535) version=535.216.03 ;; 580) version=580.95.05 ;; esac
    python3 /lab/deb2rpm.py /out/cuda-rhel9/x86_64 << LIST
nvidia-driver | 3:$version-1.el9 | | nvidia-kmod-common = 3:$version-1.el9 | $unit usr/lib/systemd/system/nvidia-persistenced.service
nvidia-kmod-common | 3:$version-1.el9 | | nvidia-kmod = 3:$version | mkdir -p usr/share/fake-nvidia
kmod-nvidia-$version-5.14.0-570.12.1 | 3:$version-3.el9_6 | | P:nvidia-kmod = 3:$version,C:nvidia-kmod | mkdir -p usr/share/fake-nvidia-kmod
nvidia-fabric-manager | $version-1 | | | $unit usr/lib/systemd/system/nvidia-fabricmanager.service
LIST
    cat >> /tmp/modules.yaml << YAML
---
document: modulemd
version: 2
data:
  name: nvidia-driver
  stream: "$branch"
  version: 20251001000000
  context: fa4e0001
  arch: x86_64
  summary: a fake (lab)
  description: a fake (lab)
  license: {module: [MIT]}
  profiles:
    default: {rpms: [nvidia-driver, kmod-nvidia-$version-5.14.0-570.12.1]}
  artifacts:
    rpms:
      - nvidia-driver-3:$version-1.el9.noarch
      - nvidia-kmod-common-3:$version-1.el9.noarch
      - kmod-nvidia-$version-5.14.0-570.12.1-3:$version-3.el9_6.noarch
      - nvidia-fabric-manager-0:$version-1.noarch
...
YAML
  done
  cat >> /tmp/modules.yaml << YAML
---
document: modulemd-defaults
version: 1
data:
  module: nvidia-driver
  profiles: {"535": [default], "580": [default]}
...
YAML
}

# FAKES: NVIDIA's names, versions and units of its container toolkit; its nvidia-ctk is the script beside this one. As
# with NVIDIA's own, the units come with 1.18 and the first program writes a configuration that no package owns.
toolkit_files() {
  # $1: package, $2: version; into the current folder
  [ "$1" = nvidia-container-toolkit-base ] || { mkdir -p "usr/share/doc-fake/$1"; : > "usr/share/doc-fake/$1/fake"; }
  case $1 in
    nvidia-container-toolkit-base)
      mkdir -p usr/bin
      cp /lab/nvidia-ctk usr/bin/nvidia-ctk
      printf '#!/bin/sh\nexit 1\n' > usr/bin/nvidia-container-runtime
      chmod 755 usr/bin/*
      [ "$2" = 1.17.8-1 ] || toolkit_units
      ;;
    nvidia-container-toolkit)
      mkdir -p usr/bin
      printf '#!/bin/sh\nexit 1\n' > usr/bin/nvidia-container-runtime-hook
      chmod 755 usr/bin/*
      ;;
  esac
}

toolkit_units() {
  mkdir -p usr/lib/systemd/system
  printf '%s\n' '[Unit]' 'Description=a fake' '[Service]' 'Type=oneshot' \
    'Environment=NVIDIA_CTK_CDI_OUTPUT_FILE_PATH=/var/run/cdi/nvidia.yaml' 'ExecStart=/usr/bin/nvidia-ctk cdi generate' \
    '[Install]' 'WantedBy=multi-user.target' > usr/lib/systemd/system/nvidia-cdi-refresh.service
  printf '%s\n' '[Unit]' 'Description=a fake' '[Path]' 'PathChanged=/usr/bin/nvidia-ctk' \
    '[Install]' 'WantedBy=multi-user.target' > usr/lib/systemd/system/nvidia-cdi-refresh.path
}

toolkit_needs() {
  # $1: package, $2: how "exactly this version" is written
  case $1 in
    nvidia-container-toolkit) echo "nvidia-container-toolkit-base $2,libnvidia-container-tools $2" ;;
    libnvidia-container-tools) echo "libnvidia-container1 $2" ;;
  esac
}

toolkit_packages() {
  local version name needs folder
  for version in 1.17.8-1 1.20.0-1; do
    for name in libnvidia-container1 libnvidia-container-tools nvidia-container-toolkit-base nvidia-container-toolkit; do
      folder=/tmp/toolkit/$version/$name
      mkdir -p "$folder/DEBIAN"
      (cd "$folder" && toolkit_files "$name" "$version")
      printf '%s | %s | | %s | cp -a %s/usr .\n' "$name" "$version" "$(toolkit_needs "$name" "= $version")" "$folder" \
        | python3 /lab/deb2rpm.py /out/libnvidia-container/rpm/x86_64
      needs=$(toolkit_needs "$name" "(= $version)")
      printf 'Package: %s\nVersion: %s\nArchitecture: amd64\nMaintainer: Fullmesh Lab <lab@example.invalid>\n' \
        "$name" "$version" > "$folder/DEBIAN/control"
      [ -z "$needs" ] || echo "Depends: ${needs//,/, }" >> "$folder/DEBIAN/control"
      echo 'Description: a fake (lab)' >> "$folder/DEBIAN/control"
      if [ "$name" = nvidia-container-toolkit-base ]; then
        printf '#!/bin/sh\nset -e\nmkdir -p /etc/nvidia-container-runtime\n: >> /etc/nvidia-container-runtime/config.toml\n' \
          > "$folder/DEBIAN/postinst"
        chmod 755 "$folder/DEBIAN/postinst"
      fi
      dpkg-deb --root-owner-group --build "$folder" "/out/libnvidia-container/deb/amd64/${name}_${version}_amd64.deb"
    done
  done
}

sign_yum() {
  printf '%%_gpg_name lab@example.invalid\n%%__gpg /usr/bin/gpg\n' > ~/.rpmmacros
  # as NVIDIA's: the packages of the container toolkit are not signed, the list of them is
  rpmsign --addsign /out/el9/x86_64/*.rpm /out/cuda-rhel9/x86_64/*.rpm
  local name
  for name in el9 cuda-rhel9 libnvidia-container/rpm; do
    createrepo_c -q "/out/$name/x86_64"
    [ "$name" != cuda-rhel9 ] || modifyrepo_c --mdtype=modules /tmp/modules.yaml "/out/$name/x86_64/repodata" > /dev/null
    gpg --batch --yes --armor --detach-sign "/out/$name/x86_64/repodata/repomd.xml"
    cp /out/RPM-GPG-KEY-lab "/out/$name/x86_64/repodata/repomd.xml.key"
  done
}

sign_apt() {
  # $1: folder, then the Release file's fields as KEY=VALUE
  cd "$1"
  shift
  apt-ftparchive packages . > Packages
  gzip -k Packages
  local options=() field
  for field in "$@"; do options+=(-o "APT::FTPArchive::Release::$field"); done
  apt-ftparchive "${options[@]}" release . > /tmp/Release
  mv /tmp/Release Release
  gpg --batch --yes --clearsign -o InRelease Release
  gpg --batch --yes --armor --detach-sign -o Release.gpg Release
}

fetch_ubuntu_main() {
  # simulated against the base image's package status: what the node lacks is what is fetched
  mkdir -p /tmp/status /tmp/archives/partial
  cp /var/lib/base-status /tmp/status/status
  # shellcheck disable=SC2046  # one argument per package is wanted
  apt-get -o Dir::State::status=/tmp/status/status -o Dir::Cache::archives=/tmp/archives -o APT::Sandbox::User=root \
    -qq -y --no-install-recommends --download-only install $(grep -v '^#' /lab/ubuntu.list)
  cp /tmp/archives/*.deb /out/ubuntu-main/
}

prepare
python3 /lab/deb2rpm.py /out/el9/x86_64 < /lab/el.list
for folder in /in/nccl/*/; do
  version=$(cat "$folder/VERSION")
  echo "nccl $version"
  nccl_debs "${folder%/}" "$version" "${version%%-*}"
  nccl_rpms "${folder%/}" "$version" "${version%%-*}"
done
driver_rpms
toolkit_packages
sign_yum
fetch_ubuntu_main
sign_apt /out/ubuntu-main Origin=Ubuntu Label=Ubuntu Suite=noble Codename=noble
sign_apt /out/cuda-ubuntu2404/x86_64 Origin=NVIDIA 'Label=NVIDIA CUDA'
sign_apt /out/libnvidia-container/deb/amd64 Origin=https://nvidia.github.io/libnvidia-container
du -sh /out/*
