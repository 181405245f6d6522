#!/bin/sh
# Make the kernel and the root of the machines with soft-RoCE (docs/lab.md): build.sh RELEASE SOURCES OUT.
# Needs root.
set -eu
here=$(dirname "$0")
release=$1 sources=$2 out=$3 root=$3/root
packages=$(grep -v '^#' "$here/packages.list" | paste -sd,)
# The kernel's package is only unpacked: installed, it would also build an initramfs.
# shellcheck disable=SC2016  # the hook's shell expands it
fetch='cd "$1" && export APT_CONFIG="$MMDEBSTRAP_APT_CONFIG" &&
    apt-get download -q "$(apt-cache depends linux-image-amd64 | sed -n "s/.*Depends: //p")" &&
    dpkg-deb -x linux-image-*.deb kernel && rm linux-image-*.deb &&
    mv kernel/lib/modules usr/lib && mv kernel/boot/vmlinuz-* vmlinuz && rm -r kernel'
mmdebstrap --variant=minbase --mode=root --include="$packages" --customize-hook="$fetch" \
    "$release" "$root" "$sources"
mv "$root/vmlinuz" "$out/vmlinuz"
version=$(basename "$root"/usr/lib/modules/*)
kept=$(mktemp)
chroot "$root" depmod "$version"
while read -r module; do
    chroot "$root" modprobe -S "$version" --show-depends "$module" | sed -n 's/^insmod \([^ ]*\).*/\1/p'
done <"$here/modules" | sort -u >"$kept"
find "$root/usr/lib/modules" -name '*.ko' | while read -r file; do
    grep -qxF "${file#"$root/usr"}" "$kept" || rm "$file"
done
chroot "$root" depmod "$version"
rm -rf "${root:?}/boot" "$root"/usr/share/doc "$root"/usr/share/man "$root"/usr/share/locale \
    "$root"/var/cache/apt "$root"/var/lib/apt/lists "$root"/usr/share/i18n "$kept"
cp "$here/modules" "$root/etc/fullmesh-modules"
cp "$here/init" "$root/init"
chmod 755 "$root/init"
(cd "$root" && find . -print0 | cpio --quiet -0 -o -H newc -R 0:0) >"$out/initrd.img"
rm -rf "$root"
