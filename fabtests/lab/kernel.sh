# shellcheck shell=bash
# SPDX-License-Identifier: BSD-2-Clause
# kernel.sh -- for lab: packages, kernel and initramfs, in a cache
#
# shellcheck disable=SC2034,SC2154 # lab and its other parts set these and use them

packages=(qemu-system-x86 busybox-static kmod cpio zstd xz-utils iproute2
	ndctl e2fsprogs rdma-core ibverbs-providers)

# What guest-initrd loads: the drivers for every guest, and those that the
# options ask for. Checksums are those by table: emulated, instructions made for them take longer.
declare -A drivers=(
	[base]="9pnet_virtio 9p overlay"
	[rdma]="crc32_generic rdma_rxe rdma_ucm ib_uverbs"
	[pmem]="nfit nd_pmem dax_pmem device_dax"
	[dummy]="dummy"
	[virtio]="virtio_net"
	[cxl]="cxl_acpi cxl_pci cxl_mem cxl_pmem nd_pmem dax_pmem device_dax"
	[disk]="virtio_blk"
	[ext4]="crc32c_generic ext4"
)

cache=${PMEMVERBS_LAB_CACHE:-${XDG_CACHE_HOME:-${HOME:-/root}/.cache}/pmemverbs-lab}
release='' vmlinux='' modules='' initrd=''

install_packages() {
	local name installed missing=()
	installed=$(dpkg-query -W -f '${db:Status-Abbrev} ${Package}\n' "${packages[@]}" 2>/dev/null)
	for name in "${packages[@]}"; do
		grep -qx "ii *$name" <<<"$installed" || missing+=("$name")
	done
	[ ${#missing[@]} -gt 0 ] || return 0
	[ "$(id -u)" = 0 ] || die "missing packages, install them as root: apt-get install ${missing[*]}"
	say "installing ${missing[*]} ..."
	{
		DEBIAN_FRONTEND=noninteractive apt-get install -qy --no-install-recommends "${missing[@]}" || {
			apt-get update -q &&
				DEBIAN_FRONTEND=noninteractive apt-get install -qy --no-install-recommends "${missing[@]}"
		}
	} </dev/null >"$run/apt.log" 2>&1 || {
		tail -20 "$run/apt.log" >&2
		die "could not install the packages"
	}
}

# newest_package -- the newest kernel package that apt knows: plain, not cloud, rt, dbg, unsigned
newest_package() {
	apt-cache pkgnames linux-image-6.12. |
		grep -xE 'linux-image-6\.12\.[0-9]+([+]deb[0-9]+)?-amd64' | sort -V | tail -n 1
}

# unpack_vmlinux BZIMAGE -- the kernel proper: decompressing it in the guest takes a second
unpack_vmlinux() {
	local sectors offset length magic
	# The fields setup_sects, payload_offset and payload_length of the x86 boot protocol.
	sectors=$(od -An -tu1 -j $((0x1f1)) -N 1 "$1")
	offset=$(od -An -tu4 -j $((0x248)) -N 4 "$1")
	length=$(od -An -tu4 -j $((0x24c)) -N 4 "$1")
	offset=$(((sectors + 1) * 512 + offset))
	magic=$(od -An -tx4 -j $offset -N 4 "$1")
	# The payload ends with four bytes of its own, the unpacked length.
	tail -c +$((offset + 1)) "$1" | head -c $((length - 4)) | case $magic in
	*fd2fb528) zstd -dcq ;;
	*587a37fd) xz -dcq ;;
	*) return 1 ;;
	esac
}

# unpacked_lib DIR -- where the modules are below: packages of Debian 13 have usr/lib
unpacked_lib() {
	if [ -d "$1/usr/lib/modules" ]; then echo "$1/usr/lib"; else echo "$1/lib"; fi
}

# fetch_kernel -- a kernel and its modules into the cache. What an interruption leaves is in
# tmp.*, where only the next one finds it, to remove it.
fetch_kernel() {
	local package tmp
	package=$(newest_package)
	if [ -z "$package" ] && [ "$(id -u)" = 0 ]; then
		apt-get update -q </dev/null >&2
		package=$(newest_package)
	fi
	[ -n "$package" ] || die "apt knows no linux-image-6.12.*-amd64: add the security suite of this Debian to its sources (bookworm-security), and apt-get update"
	release=${package#linux-image-}
	rm -rf "$cache"/tmp.*
	tmp=$(mktemp -d "$cache/tmp.XXXXXX") || exit 125
	say "downloading kernel $release ..."
	(
		cd "$tmp" || exit
		# As root, apt would want to download as a user who cannot write here.
		download=(apt-get -q -o APT::Sandbox::User=root download "$package")
		"${download[@]}" || { [ "$(id -u)" = 0 ] && apt-get -q update && "${download[@]}"; }
	) </dev/null >"$run/apt.log" 2>&1 || {
		tail -20 "$run/apt.log" >&2
		die "could not download $package"
	}
	say "unpacking it ..."
	{
		dpkg -x "$tmp/$package"_*.deb "$tmp/x" &&
			unpack_vmlinux "$tmp/x/boot/vmlinuz-$release" >"$tmp/vmlinux" &&
			mv "$(unpacked_lib "$tmp/x")" "$tmp/lib" && rm -r "$tmp/x" "$tmp/$package"_*.deb &&
			depmod -b "$tmp" "$release" && mv "$tmp" "$cache/kernel-$release"
	} || die "could not unpack $package"
}

# driver_files NAME -- the file of a driver, after those of the drivers that it needs.
# Not modprobe --show-depends, which leaves out what the host's own kernel has.
driver_files() {
	awk -v name="/$1.ko" '
		index($1, name) {
			for (i = NF; i > 1; i--)
				print $i
			sub(":", "", $1)
			print $1
			found = 1
		}
		END { exit !found }' "$modules/modules.dep"
}

# unsign FILE -- without a module's signature, which the kernel would verify: that takes as long as all else of a module's start.
# At its end are 12 bytes, the last four of which are the signature's length, and 28 with these words
unsign() {
	local length
	[ "$(tail -c 28 "$1")" = '~Module signature appended~' ] || return 0
	length=$(tail -c 32 "$1" | od -An -tu4 --endian=big -N 4)
	truncate -s $(($(stat -c %s "$1") - length - 40)) "$1"
}

# build_initrd FILE -- busybox, guest-initrd and the drivers, in an uncompressed initramfs
build_initrd() {
	local root=$run/initrd group name file
	say "building the initramfs ..."
	mkdir -p "$root"/{bin,dev,proc,sys,job,lower,rw,newroot,modules} &&
		cp "$here/guest-initrd" "$root/init" && chmod 755 "$root/init" &&
		cp "$(type -P busybox)" "$root/bin/busybox" && ln -s busybox "$root/bin/sh" || return
	for group in "${!drivers[@]}"; do
		for name in ${drivers[$group]}; do
			driver_files "$name" >"$run/depends" || return
			while read -r file; do
				name=${file##*/}
				name=${name%.xz}
				grep -qxsF "$name" "$root/modules/$group.list" ||
					echo "$name" >>"$root/modules/$group.list"
				[ ! -e "$root/modules/$name" ] || continue
				case $file in
				*.xz) xz -dc "$modules/$file" ;;
				*) cat "$modules/$file" ;;
				esac >"$root/modules/$name" && unsign "$root/modules/$name" || return
			done <"$run/depends"
		done
	done
	(cd "$root" && find . | cpio --quiet -o -H newc -R 0:0) >"$1.$$" && mv "$1.$$" "$1" &&
		rm -r "$root"
}

# set_up -- make sure that everything is there; sets release, vmlinux, modules, initrd
set_up() {
	local lock newest hash
	mkdir -p "$cache" || die "cannot create $cache"
	exec {lock}>"$cache/lock" || die "cannot write to $cache"
	flock -w 2 $lock || {
		say "waiting for another lab's set-up ..."
		flock $lock
	}
	install_packages
	newest=$(printf '%s\n' "$cache"/kernel-* | sort -V | tail -n 1)
	if [ -d "$newest" ]; then
		release=${newest#"$cache"/kernel-}
	else
		fetch_kernel
	fi
	vmlinux=$cache/kernel-$release/vmlinux
	modules=$cache/kernel-$release/lib/modules/$release
	hash=$({ declare -p drivers && declare -f unsign && cat "$here/guest-initrd"; } | sha256sum)
	initrd=$cache/initrd-$release-${hash:0:16}
	[ -e "$initrd" ] || build_initrd "$initrd" || die "could not build the initramfs"
	# Those of older versions of guest-initrd go when nobody has used them for a while.
	touch "$initrd"
	find "$cache" -maxdepth 1 -name 'initrd-*' -mtime +7 -delete
	exec {lock}>&-
}
