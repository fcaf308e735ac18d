#!/bin/bash
# Makes a Debian with a working apt and dpkg in a folder, without network, and a repository of small packages with the names of the real ones.
# usage: debian.sh ROOT KERNEL; exit status 77: this machine cannot do it, and standard output has the reason
set -eu
root=$1 kernel=$2
skip() { echo "$1"; exit 77; }
[ "$(id -u)" = 0 ] || skip "not root"
for tool in apt-cache apt-get dpkg dpkg-deb dpkg-query chroot ldconfig tar sha256sum mknod; do
  command -v "$tool" > /dev/null || skip "no $tool"
done
grep -q '^ID=debian' /etc/os-release || skip "this is not Debian"

# The packages that apt needs, copied file by file from this machine.
mkdir -p "$root"
for name in bin sbin lib lib32 lib64 libx32; do
  [ -L "/$name" ] || continue
  mkdir -p "$root/usr/$name"
  ln -s "usr/$name" "$root/$name"
done
mkdir -p "$root"/var/lib/dpkg/{info,updates,triggers} "$root"/var/lib/apt/lists/partial "$root"/var/cache/apt/archives/partial \
  "$root"/var/log "$root"/tmp "$root"/root "$root"/dev "$root"/etc/apt/{apt.conf.d,preferences.d,sources.list.d,trusted.gpg.d}
packages=$({ dpkg-query -W -f='${Essential} ${Package}\n' | sed -n 's/^yes //p'; echo apt; echo mawk; } |
  xargs apt-cache depends --recurse --installed --no-recommends --no-suggests --no-conflicts --no-breaks --no-replaces --no-enhances |
  grep '^[a-z0-9]' | sort -u)
for package in $packages; do
  dpkg-query -s "$package" >> "$root/var/lib/dpkg/status" 2> /dev/null || continue
  echo >> "$root/var/lib/dpkg/status"
  for file in "/var/lib/dpkg/info/$package".* "/var/lib/dpkg/info/$package":*; do
    [ -e "$file" ] && cp -a "$file" "$root/var/lib/dpkg/info/"
  done
  dpkg -L "$package"
done | sort -u | while read -r path; do
  case $path in /usr/share/doc/* | /usr/share/man/* | /usr/share/locale/* | /usr/share/info/*) continue ;; esac
  if [ -L "$path" ] || [ -f "$path" ]; then echo "${path#/}"; fi
done > "$root/tmp/files"
tar -C / --ignore-failed-read -cf - -T "$root/tmp/files" 2> /dev/null | tar -C "$root" --keep-directory-symlink -xf -
cp /etc/passwd /etc/group "$root/etc/"
mknod -m 666 "$root/dev/null" c 1 3 || skip "no device nodes can be made here"
mknod -m 666 "$root/dev/zero" c 1 5
mknod -m 666 "$root/dev/urandom" c 1 9
ldconfig -r "$root"
echo 'APT::Sandbox::User "root"; APT::Install-Recommends "false";' > "$root/etc/apt/apt.conf.d/99test"
: > "$root/etc/apt/sources.list"
# Debian's own source, which needs a network.
printf 'Types: deb\nURIs: http://deb.debian.org/debian\nSuites: bookworm\nComponents: main contrib\nEnabled: no\n' > "$root/etc/apt/sources.list.d/debian.sources"
chroot "$root" apt-get check > /dev/null 2>&1 || skip "apt does not work in the copy"

# Programs that change the kernel or ask it: they change or show files of the folder.
fake=$root/var/fake
mkdir -p "$fake" "$root/usr/local/bin"
tool() {
  printf '#!/bin/sh\necho "%s $*" >> /var/fake/log\n' "$(basename "$1")" > "$root$1"
  cat >> "$root$1"
  chmod 755 "$root$1"
}
tool /usr/sbin/dkms <<< '[ "$1" != status ] || cat /var/fake/dkms 2>/dev/null; exit 0'
tool /usr/sbin/modinfo <<< 'for name; do :; done; cat "/var/fake/modinfo.$name"'
tool /usr/sbin/modprobe <<< '[ -d /proc/driver/nvidia ]'
tool /usr/sbin/update-initramfs <<< 'exit 0'
tool /usr/local/bin/wget <<< 'for url; do :; done; cp "/repository/${url##*/}" .'

# The packages. The script after the installation does to the folder what DKMS does to a machine.
repository=$root/repository
mkdir -p "$repository"
deb() {
  local name=$1 version=$2 folder
  folder=$(mktemp -d)
  mkdir -p "$folder/DEBIAN"
  printf 'Package: %s\nVersion: %s\nArchitecture: all\nMaintainer: test <test@example.org>\nDescription: test\n' "$name" "$version" > "$folder/DEBIAN/control"
  { echo '#!/bin/sh'; cat; } > "$folder/DEBIAN/postinst"
  chmod 755 "$folder/DEBIAN/postinst"
  dpkg-deb --root-owner-group -b "$folder" "$repository/${name}_${version}_all.deb" > /dev/null
  rm -r "$folder"
}
driver=580.95.05
deb cuda-keyring 1.1-1 << 'END'
echo 'deb [trusted=yes] file:/repository ./ # developer.download.nvidia.com' > /etc/apt/sources.list.d/cuda-debian12-x86_64.list
END
deb "linux-headers-$kernel" 1 <<< 'exit 0'
deb nvidia-open "$driver-1" << END
echo 'nvidia/$driver, $kernel, x86_64: installed' >> /var/fake/dkms
printf 'filename: /lib/modules/$kernel/updates/dkms/nvidia.ko\nversion: $driver\nlicense: Dual MIT/GPL\n' > /var/fake/modinfo.nvidia
END
for cuda in 12-3 12-9 13-0 13-1 13-2 13-3; do
  deb "libcufile-$cuda" 1 <<< 'exit 0'
  deb "nvidia-gds-$cuda" 1 << END
echo 'nvidia-fs/2.27.3, $kernel, x86_64: installed' >> /var/fake/dkms
printf 'filename: /lib/modules/$kernel/updates/dkms/nvidia-fs.ko\nversion: 2.27.3\nlicense: GPL v2\n' > /var/fake/modinfo.nvidia_fs
cp /var/fake/modinfo.nvidia_fs /var/fake/modinfo.nvidia-fs
END
done
cd "$repository"
for file in *.deb; do
  case $file in cuda-keyring*) continue ;; esac
  dpkg-deb -f "$file"
  printf 'Filename: ./%s\nSize: %s\nSHA256: %s\n\n' "$file" "$(stat -c %s "$file")" "$(sha256sum < "$file" | cut -d ' ' -f 1)"
done > Packages
