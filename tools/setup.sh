# shellcheck shell=bash
# SPDX-License-Identifier: BSD-2-Clause
# setup.sh -- what ./quickstart and ./runtests share: packages and building
#
# Sourced by bash, with the top of the tree in $top.
#
# shellcheck disable=SC2034,SC2154 # who sources it has set what is used here, and uses what is set

. "$top/tools/lib/say.sh"

# To build and to use; to test, also what ./runtests runs.  libjson-c-dev is for fi_pmem_info --json, libxxhash-dev
# for the checksums of fi_pmem_cp; liburing-dev, which may be missing, for blocks of files that are written together.
build_packages=(gcc make autoconf automake libtool pkgconf
	libfabric-dev libibverbs-dev librdmacm-dev libpmem2-dev libsodium-dev libnuma-dev libmount-dev
	libjson-c-dev libxxhash-dev liburing-dev)
# librpma-dev is for a reference of the benchmarks, datamash for what they measure; iproute2 is for tests without a
# network.
test_packages=(libfabric-bin libcriterion-dev libglib2.0-dev openmpi-bin libopenmpi-dev librpma-dev datamash iproute2)
# What a Debian 13 needs not: for steps that do not depend on the version of a library.  gnuplot-nox is
# for fabtests/report/report, libxml2-utils to look at what it writes; clang-tidy-14 and cppcheck are for
# tools/analyse, gcovr for make coverage, shellcheck for all scripts; mmdebstrap makes that Debian 13; clang and
# libclang-rt-dev are for the fuzzers (libFuzzer).  The Debian package needs build-essential, debhelper, lintian and
# bash-completion.  With a question mark: where the distribution has it.  The sources are formatted by version 14.
tool_packages=(clang-format-14? clang-tidy-14? cppcheck gcovr clang libclang-rt-dev? universal-ctags valgrind xz-utils
	man-db e2fsprogs xfsprogs gnuplot-nox libxml2-utils shellcheck? build-essential debhelper lintian bash-completion
	mmdebstrap)
# For fio's engine, which is tested with the distribution's fio; dpkg-dev unpacks its sources.
fio_packages=(fio dpkg-dev)

# version -- that of this tree
version()
{
	"$top/tools/version" "${0##*/}"
}

# is_installed PACKAGE
is_installed()
{
	dpkg-query -W -f '${Status}' "$1" 2>/dev/null | grep -q 'ok installed'
}

# install_packages PACKAGE... -- those with a question mark only if there are such
install_packages()
{
	local known=() package

	apt-get update -q || return
	for package; do
		if [ "$package" = "${package%\?}" ] || [ -n "$(apt-cache show "${package%\?}" 2>/dev/null)" ]; then
			known+=("${package%\?}")
		fi
	done
	[ ${#known[@]} = 0 ] ||
		DEBIAN_FRONTEND=noninteractive apt-get install -qy --no-install-recommends "${known[@]}"
}

# need_packages PACKAGE... -- install those that are missing
need_packages()
{
	local missing=() package needed=''

	command -v dpkg-query >/dev/null || die "this script installs Debian packages, and this is no Debian; build by hand: see README.md"
	for package; do
		is_installed "${package%\?}" && continue
		missing+=("$package")
		[ "$package" != "${package%\?}" ] || needed=yes
	done
	[ ${#missing[@]} -gt 0 ] || return 0
	if [ "$(id -u)" != 0 ]; then
		[ -n "$needed" ] || return 0
		die "not root: install these packages yourself and try again: ${missing[*]%\?}"
	fi
	[ -z "$needed" ] || say "Installing: ${missing[*]%\?}"
	install_packages "${missing[@]}" >"$top/setup.log" 2>&1 </dev/null || {
		# The distribution may not have the others, and there may be no network.
		[ -n "$needed" ] || return 0
		tail -20 "$top/setup.log" >&2
		die "apt-get failed; the whole log is in setup.log"
	}
}

# copy_sources DIR -- without what an earlier build in the source tree has left there:
# configure refuses to build beside that, and make would take its objects
copy_sources()
{
	mkdir -p "$1" &&
		tar -C "$top" --exclude=./.git --exclude=./build --exclude=./build-test --exclude="./${1#"$top"/}" -cf - . |
		tar -C "$1" -xf - || return
	make -C "$1" distclean
}

# configure_and_make DIR SOURCES [CONFIGURE-OPTION...] -- all, or what make_targets names
configure_and_make()
{
	local dir=$1 sources=$2

	shift 2
	if [ ! -x "$sources/configure" ] || [ "$sources/configure.ac" -nt "$sources/configure" ] ||
		[ "$sources/Makefile.am" -nt "$sources/Makefile.in" ]; then
		"$sources/autogen.sh" || return
	fi
	cd "$dir" || return
	if [ ! -f Makefile ] || [ "$sources/configure" -nt Makefile ] ||
		[ "$(cat options 2>/dev/null)" != "$sources $*" ]; then
		# libtool is a script: bash, which configure would take, needs twice as long for it as dash.
		CONFIG_SHELL=/bin/sh "$sources/configure" "$@" && printf '%s' "$sources $*" >options || return
	fi
	# shellcheck disable=SC2086 # words
	make -j"$(nproc)" ${make_targets-}
}

# build_tree DIR [CONFIGURE-OPTION...] -- configure if need be, and make, in DIR
build_tree()
{
	local dir=$1 sources=$top

	shift
	mkdir -p "$dir" || return
	: >"$dir/build.log"
	if [ -f "$top/config.status" ]; then
		sources=$dir/sources
		say "   (This tree has been built in place, which ./configure does not build beside:"
		say "   building a copy of it, ${sources#"$top"/}.  make distclean would end that.)"
		copy_sources "$sources" >>"$dir/build.log" 2>&1
	fi && (configure_and_make "$dir" "$sources" "$@") >>"$dir/build.log" 2>&1 && return
	tail -30 "$dir/build.log" >&2
	say "building failed; the whole log is in $dir/build.log" >&2
	return 1
}
