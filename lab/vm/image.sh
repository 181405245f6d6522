#!/bin/sh
# image.sh FAMILY: makes /out/disk.img, /out/vmlinuz and /out/initrd.img from the node image at /in. Runs in the
# builder (Containerfile), privileged, with the lab's repositories at /srv/repo and this folder at /lab.
set -eu
family=$1
root=/out/root

# The containers' own restrictions: a virtual machine has a kernel, a clock and devices of its own.
unharden() {
  find "$root/etc/systemd/system" -maxdepth 1 -lname /dev/null -delete
  rm -rf "$root"/etc/systemd/system/lab-*.service "$root"/etc/systemd/system/*/lab-*.service \
    "$root/etc/systemd/system/systemd-udev-trigger.service.d" "$root/etc/systemd/system/chrony.service.d" \
    "$root/etc/systemd/system.conf.d/10-lab.conf" "$root/etc/systemd/journald.conf.d/lab.conf" \
    "$root/usr/local/sbin/lab-procsys" "$root/etc/NetworkManager/conf.d/10-lab.conf" \
    "$root/.dockerenv" "$root/run/.containerenv"
}

# Emulated, a login's own systemd costs seconds, and so does what runs beside the tests.
trim() {
  for unit in user@.service apt-daily.timer apt-daily-upgrade.timer dpkg-db-backup.timer e2scrub_all.timer \
    e2scrub_reap.service fstrim.timer man-db.timer dnf-makecache.timer getty@tty1.service \
    systemd-networkd-wait-online.service NetworkManager-wait-online.service; do
    ln -s /dev/null "$root/etc/systemd/system/$unit"
  done
}

# Everything that was installed in the running image is in its own package database, as on a real box.
install_packages() {
  mkdir -p "$root/srv/repo"
  mount --bind /srv/repo "$root/srv/repo"
  mount -t proc proc "$root/proc"
  sh "/lab/$family/packages.sh" "$root"
  umount "$root/proc" "$root/srv/repo"
}

boot_files() {
  cp -L /vmlinuz /out/vmlinuz
  cp -L /initrd.img /out/initrd.img
  mkdir -p "$root/lib/modules"
  cp -a /lib/modules/. "$root/lib/modules/"
}

identity() {
  cp -a /lab/root/. "$root/"
  : > "$root/etc/machine-id"
  rm -f "$root"/etc/ssh/ssh_host_*
  printf '%s\n' '/dev/vda / ext4 errors=remount-ro 0 1' \
    'LABEL=fullmesh-repo /srv/repo ext4 ro,nofail 0 0' > "$root/etc/fstab"
  ln -sf /etc/systemd/system/fullmesh-vm-seed.service "$root/etc/systemd/system/multi-user.target.wants/"
}

rm -rf /out/root
mkdir -p /out/root
cp -a /in/. "$root/"
unharden
install_packages
boot_files
identity
trim
sh "/lab/$family/finish.sh" "$root"
# kept sparse: 6 GB of room, 700 MB of disk
mke2fs -q -t ext4 -d "$root" -L root -E lazy_itable_init=1 /out/disk.img 6G
rm -rf /out/root
