# shellcheck shell=bash
# SPDX-License-Identifier: BSD-2-Clause
# check.sh -- unit tests in a build folder
#
# shellcheck disable=SC2034,SC2154 # step.sh has been sourced before, and steps use what is set here

# What check runs the tests by.
check_as=()

# confine -- by what has no network but loopback, and no rights of root, if that can be had
confine()
{
	[ -O "$work" ] && unshare --net true 2>/dev/null || return 0
	check_as=(unshare --net sh -c '/sbin/ip link set lo up && exec setpriv --bounding-set -all \
		--inh-caps -all --no-new-privs "$@"' confined)
}

# without_git -- prints a library that Criterion takes for libgit2, which it asks for differences of texts in a kind of
# assertion that no test here has.  With that one come a dozen others, and all certificates are read, in each case's process
without_git()
{
	local name library

	name=$(readelf -d "$(gcc -print-file-name=libcriterion.so)" | sed -n 's/.*NEEDED.*\[\(libgit2.*\)\]/\1/p')
	[ -n "$name" ] || return 0
	library=$work/without/$name
	mkdir -p "$work/without" && printf 'int git_%s(void) { return 1; }\n' libgit2_init libgit2_shutdown |
		gcc -shared -fPIC -Wl,-soname,"$name" -x c -o "$library" - && echo "$library"
}

# run_tests TREE [VARIABLE=VALUE]... -- a library below libfabric has a handler that hides where a process has crashed
run_tests()
{
	local tree=$1

	shift
	LD_PRELOAD="$work/plain/.libs/libstart.so $(without_git)" IPATH_NO_BACKTRACE=1 \
		"${check_as[@]}" make -j$((3 * $(nproc))) -C "$tree" check-TESTS "$@"
}

# runner_crashed TREE -- sets crashed: the tests that have failed, if in all of them Criterion's own process crashed in its
# library, before it had told of any case.  On a busy machine that was seen in one of 240 runs
runner_crashed()
{
	local file
	local -a failed

	crashed=()
	mapfile -t failed < <(grep -lE '^:global-test-result: (FAIL|ERROR)' "$1"/test_*.trs)
	for file in "${failed[@]%.trs}"; do
		grep -qE '^SUMMARY: .*: SEGV \(.*/libcriterion' "$file.log" && ! grep -q '^\(not \)\?ok' "$file.log" || return
		crashed+=("${file##*/}")
	done
	[ ${#crashed[@]} -gt 0 ]
}

# check BUILD [VARIABLE=VALUE]... -- its unit tests; unlike `make check' it builds nothing else.  They wait more than they
# compute: most of a test's time is libfabric's start.
check()
{
	local tree=$work/$1 status=0
	local -a crashed

	shift
	rm -f "$tree"/test_*.log "$tree"/test_*.trs
	make -j"$(nproc)" -C "$tree" check-TESTS "$@" TESTS= &&
		{ run_tests "$tree" "$@" || { runner_crashed "$tree" && run_tests "$tree" "$@" TESTS="${crashed[*]}"; }; } || {
		status=1
		# Indented, as below: these lines are not to be counted again.
		sed 's/^/    /' "$tree/test-suite.log"
	}
	# Criterion does not mind how a test's process ends.
	if grep -A9 -e 'Sanitizer: ' -e 'runtime error: ' "$tree"/test_*.log >"$tree/reports"; then
		status=1
		sed 's/^/    /' "$tree/reports"
	fi
	return $status
}
