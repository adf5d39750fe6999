# shellcheck shell=bash
# SPDX-License-Identifier: BSD-2-Clause
# setup.sh -- what ./quickstart and ./runtests share: packages and building
#
# Sourced by bash, with the top of the tree in $top.

# To build and to use; to test, also what ./runtests runs.
build_packages=(gcc make autoconf automake libtool pkg-config
	libfabric-dev libibverbs-dev librdmacm-dev libpmem2-dev libsodium-dev libnuma-dev)
test_packages=(libfabric-bin libcriterion-dev libglib2.0-dev libxxhash-dev clang-format valgrind xz-utils man-db
	e2fsprogs openmpi-bin libopenmpi-dev)

say()
{
	printf '%s\n' "$*"
}

die()
{
	printf '%s: %s\n' "${0##*/}" "$*" >&2
	exit 1
}

# need_packages PACKAGE... -- install those that are missing
need_packages()
{
	local missing=() package

	command -v dpkg-query >/dev/null || die "this script installs Debian packages, and this is no Debian; build by hand: see README.md"
	for package; do
		dpkg-query -W -f '${Status}' "$package" 2>/dev/null | grep -q 'ok installed' ||
			missing+=("$package")
	done
	[ ${#missing[@]} -gt 0 ] || return 0
	say "Installing: ${missing[*]}"
	[ "$(id -u)" = 0 ] || die "not root: install these packages yourself and try again"
	{
		apt-get update -q &&
			DEBIAN_FRONTEND=noninteractive apt-get install -qy --no-install-recommends "${missing[@]}"
	} >"$top/setup.log" 2>&1 </dev/null || {
		tail -20 "$top/setup.log" >&2
		die "apt-get failed; the whole log is in setup.log"
	}
}

# build_tree DIR [CONFIGURE-OPTION...] -- configure if need be, and make, in DIR
build_tree()
{
	local dir=$1

	shift
	mkdir -p "$dir"
	{
		if [ ! -x "$top/configure" ] || [ "$top/configure.ac" -nt "$top/configure" ] ||
			[ "$top/Makefile.am" -nt "$top/Makefile.in" ]; then
			"$top/autogen.sh" || return
		fi
		cd "$dir" || return
		if [ ! -f Makefile ] || [ "$top/configure" -nt Makefile ] ||
			[ "$(cat options 2>/dev/null)" != "$*" ]; then
			"$top/configure" "$@" && printf '%s' "$*" >options || return
		fi
		make -j"$(nproc)"
	} >"$dir/build.log" 2>&1 || {
		tail -30 "$dir/build.log" >&2
		say "building failed; the whole log is in $dir/build.log" >&2
		return 1
	}
}
